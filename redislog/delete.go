package redislog

import "context"

// Delete removes the stream with its groups and everything that is kept beside
// it (floor, epoch, skipped ranges, leases, the watermark of foreign readers).
// It is not a way to trim: records that no archive has are gone, and a stream
// made anew under the name may take ids that an archive already holds. Stop the
// stream's writer and consumers first; what they do meanwhile makes keys anew.
func (l *Log) Delete(ctx context.Context) error {
	keys, err := l.c.scan(ctx, escapeGlob(l.stream.Key())+":*")
	if err != nil {
		return err
	}
	words := command{"UNLINK", l.stream.Key()}
	for _, k := range keys {
		words = append(words, k)
	}
	return l.ask(ctx, "UNLINK", words, nil)
}
