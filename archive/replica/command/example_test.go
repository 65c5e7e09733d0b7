package command_test

import (
	"fmt"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/archive/replica/command"
)

func ExampleDecode() {
	c := command.Command{Op: command.OpFold, Stream: evtlog.StreamName{Queue: "cm", Name: "feed"}, Body: []byte("a commit")}
	b := c.Append(nil)
	got, err := command.Decode(b)
	fmt.Println(got.Stream, string(got.Body), err)
	b[len(b)-6] ^= 1
	_, err = command.Decode(b)
	fmt.Println(err)
	// Output:
	// cm/feed a commit <nil>
	// replica: command for cm/feed refused: the checksum of the body does not match
}
