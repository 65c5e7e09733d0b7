package badlint

import (
	"errors"
	"net/http"
	"os"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/gomodule/redigo/redis"
	"github.com/hashicorp/raft"
)

var Started actor.Actor

func init() {
	http.Handle("/", http.NotFoundHandler())
}

func Quit(c redis.Conn, f raft.Future) {
	c.Send("PING")
	if f.Error() == raft.ErrRaftShutdown {
		os.Exit(1)
	}
}

func Lose() error {
	return errors.New("nothing was recieved")
}

func Excused() error {
	return nil //nolint
}
