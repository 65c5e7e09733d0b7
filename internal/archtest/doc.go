// Package archtest holds the tests of the repository's shape: who may import
// whom, how long a file may be, and what does not belong in it. It has no code
// of its own.
package archtest
