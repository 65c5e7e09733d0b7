package streamconsumer

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

// TestMain also serves as the program of the tests that need a process to die:
// they start the test binary again with childEnv set.
func TestMain(m *testing.M) {
	if role := os.Getenv(childEnv); role != "" {
		runChild(role)
		return
	}
	goleak.VerifyTestMain(m)
}
