package main

import (
	"io"
	"os/signal"
	"syscall"
)

// outliveReader lets a verb that has something to put in order go on when nobody
// reads its output any more, as when Ctrl-C ended the rest of its pipe first. Other
// verbs are ended by that, without a word, which is what "| head" is for.
func outliveReader() { signal.Ignore(syscall.SIGPIPE) }

// watched passes on what is written, and calls left once that fails.
type watched struct {
	io.Writer
	left func()
}

// Write implements io.Writer.
func (w watched) Write(p []byte) (int, error) {
	n, err := w.Writer.Write(p)
	if err != nil {
		w.left()
	}
	return n, err
}
