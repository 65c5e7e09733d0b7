package redislog

import (
	"context"
	"strings"

	"github.com/gomodule/redigo/redis"
)

// KillReader ends a former connection of a group member by its ClientID, so that
// a read which it left parked at the server is not handed the next entry. After
// a restart the server gives its numbers anew; so the connection is ended only
// when it carries the name of that member's reader. It is no error when there is
// no such connection. It does not reach through a proxy that shares connections.
func (l *Log) KillReader(ctx context.Context, group, consumer string, clientID int64) error {
	if err := checkGroupMember(group, consumer); err != nil {
		return err
	}
	if clientID <= 0 {
		return badArgument("KillReader", "client id", "the server did not tell it")
	}
	name := roleName(l.c.cfg.ClientName, "reader:"+l.stream.String()+":"+group+"/"+consumer)
	return l.with(ctx, "CLIENT KILL", func(s *session) error {
		line, err := redis.String(s.do(command{"CLIENT", "LIST", "ID", clientID}))
		if err != nil || !strings.Contains(line, " name="+name+" ") {
			return err
		}
		_, err = s.do(command{"CLIENT", "KILL", "ID", clientID})
		return err
	})
}
