package supervisetest_test

import (
	"context"
	"testing"

	"github.com/evtlog/evtlog/actors/supervise"
	"github.com/evtlog/evtlog/actors/supervise/supervisetest"
)

func TestAPlainComponentPasses(t *testing.T) {
	supervisetest.StressRunner(t, func() supervise.Spec {
		return supervise.Spec{Name: "plain", New: func() (supervise.Runner, error) {
			return supervise.RunFunc(func(ctx context.Context, ready func()) error {
				ready()
				<-ctx.Done()
				return nil
			}), nil
		}}
	})
}
