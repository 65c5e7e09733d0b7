package keyspace_test

import (
	"errors"
	"fmt"

	"github.com/evtlog/evtlog/keyspace"
)

func ExampleNewStream() {
	feed, err := keyspace.NewStream("cm", "feed")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(feed, feed.Key(), feed.Dead().Key())
	fmt.Println(keyspace.Slot(feed.Key()) == keyspace.Slot(keyspace.Events("cm")))

	_, err = keyspace.NewStream("cm", "feed:archived")
	var refused *keyspace.NameError
	fmt.Println(errors.As(err, &refused), err)
	// Output:
	// cm/feed emq:{cm}:stream:feed emq:{cm}:stream:feed.dead
	// true
	// true keyspace: stream name "feed:archived" refused: byte 4 (":"): only A-Z a-z 0-9 . _ - are allowed
}

func ExampleJobKey() {
	key, err := keyspace.JobKey("cm", "JOB0KHTOWnGLuC")
	fmt.Println(key, err)
	_, err = keyspace.JobKey("cm", "not an id")
	fmt.Println(err)
	// Output:
	// emq:{cm}:job:JOB0KHTOWnGLuC <nil>
	// keyspace: job id "not an id" refused: it has 9 bytes; an id has 14
}
