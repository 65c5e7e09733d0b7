package game

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"
)

// Bots play rounds until ctx ends: each of n players guesses in turn, and a new
// round is opened when one is cracked or old. They play with the feed in mind,
// not to win: a guess moves one emoji of the last one, or starts anew.
func (g *Game) Bots(ctx context.Context, n int, pause time.Duration, seed uint64) error {
	rnd := rand.New(rand.NewPCG(seed, seed))
	for ctx.Err() == nil {
		secret := Deal(rnd.IntN)
		var round string
		err := unhurried(ctx, func(ctx context.Context) (err error) {
			round, err = g.Open(ctx, secret)
			return err
		})
		if err != nil {
			return err
		}
		if err := g.playRound(ctx, rnd, round, secret, n, pause); err != nil {
			return err
		}
	}
	return nil
}

// unhurried gives an append its own time: the end of the game between the write
// and its answer would leave the outcome open.
func unhurried(ctx context.Context, f func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	return f(ctx)
}

// playRound makes guesses that get closer and ends with the secret itself.
func (g *Game) playRound(ctx context.Context, rnd *rand.Rand, round string, secret Code, players int, pause time.Duration) error {
	for known := 0; known <= Positions; known++ {
		for p := range players {
			code := closeTo(rnd, secret, known)
			err := unhurried(ctx, func(ctx context.Context) error {
				_, err := g.Guess(ctx, round, fmt.Sprintf("bot-%d", p+1), code)
				return err
			})
			if err != nil {
				return err
			}
			select {
			case <-time.After(pause):
			case <-ctx.Done():
				return nil
			}
		}
	}
	return nil
}

// closeTo makes a code that has the first known places right and the rest of
// the secret's emojis shuffled.
func closeTo(rnd *rand.Rand, secret Code, known int) Code {
	c := secret
	rest := c[known:]
	rnd.Shuffle(len(rest), func(i, j int) { rest[i], rest[j] = rest[j], rest[i] })
	return c
}
