package faultproxy

import (
	"bufio"
	"io"
	"strconv"
)

// readReply appends one whole answer of the server, nested parts included, to
// dst. A line that is no answer counts as one.
func readReply(in *bufio.Reader, dst []byte) ([]byte, error) {
	for missing := 1; missing > 0; missing-- {
		line, err := in.ReadSlice('\n')
		if err != nil {
			return dst, err
		}
		dst = append(dst, line...)
		n, err := strconv.Atoi(string(line[1:max(len(line)-2, 1)]))
		if err != nil || n < 0 {
			continue
		}
		switch line[0] {
		case '*':
			missing += n
		case '$':
			start := len(dst)
			dst = append(dst, make([]byte, n+2)...)
			if _, err := io.ReadFull(in, dst[start:]); err != nil {
				return dst, err
			}
		}
	}
	return dst, nil
}
