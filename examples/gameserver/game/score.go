package game

import (
	"fmt"
	"slices"
	"strings"
)

// Positions is the length of a code.
const Positions = 6

// Crack is the score of a guess that has every emoji in its place. It settles
// the round.
const Crack = Positions * 100

// Alphabet is what codes are made of.
var Alphabet = []string{"🍎", "🍋", "🍇", "🍉", "🍒", "🥝", "🍍", "🥥", "🌶", "🌽", "🍄", "🥕"}

// Code is a secret or a guess: six emojis of the Alphabet, all different.
type Code [Positions]string

// ParseCode reads a code written as emojis separated by spaces.
func ParseCode(s string) (Code, error) {
	var c Code
	parts := strings.Fields(s)
	if len(parts) != Positions {
		return c, fmt.Errorf("a code has %d emojis separated by spaces; %q has %d", Positions, s, len(parts))
	}
	for i, p := range parts {
		if !slices.Contains(Alphabet, p) {
			return c, fmt.Errorf("%q is not one of %s", p, strings.Join(Alphabet, " "))
		}
		if slices.Contains(parts[:i], p) {
			return c, fmt.Errorf("%q stands twice; the emojis of a code are all different", p)
		}
		c[i] = p
	}
	return c, nil
}

// String writes the code as ParseCode reads it.
func (c Code) String() string { return strings.Join(c[:], " ") }

// Score rates a guess: an emoji found at distance d from its place gives
// 100 − 20·d, one that is not in the secret gives nothing.
func Score(secret, guess Code) int {
	total := 0
	for at, emoji := range guess {
		place := slices.Index(secret[:], emoji)
		if place < 0 {
			continue
		}
		distance := max(place-at, at-place)
		total += 100 - 20*distance
	}
	return total
}

// Deal makes a code from a source of random numbers (n → 0..n-1).
func Deal(intn func(n int) int) Code {
	left := slices.Clone(Alphabet)
	var c Code
	for i := range c {
		k := intn(len(left))
		c[i] = left[k]
		left = slices.Delete(left, k, k+1)
	}
	return c
}
