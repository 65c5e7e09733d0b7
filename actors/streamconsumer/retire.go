package streamconsumer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/evtlog/evtlog/redislog"
)

// ErrNoHeir: a member with pending entries cannot be removed while the group has
// no other member that could take them. Start one, or name one as the heir.
var ErrNoHeir = errors.New("no other member to take its pending entries")

// retireTries bounds how often a member is given entries while it is removed.
const retireTries = 100

// Retirement says which member to remove.
type Retirement struct {
	Group, Member string
	// Heir is the member that gets what is pending. Empty means the one that was
	// active last.
	Heir string
	// MinIdle is how long an entry must not have been touched to be taken over; use
	// what the group's members have. A member at work keeps its entries, and is not
	// removed. Zero means 30 s.
	MinIdle time.Duration
}

// Retire removes a member from a group and loses nothing that is pending for it:
// its entries are handed to the heir, where the next beat of any member finds
// them, and it is removed in one step with the proof that nothing is pending. It
// returns how many entries were handed over; also with an error, after which it
// can be called again.
//
// A *redislog.MemberBusyError says that the member holds entries it touched within
// MinIdle: it is at work, stop it first. Without a group it is evtlog.ErrNoGroup;
// a member that does not exist is no error.
func Retire(ctx context.Context, log *redislog.Log, r Retirement) (moved int64, err error) {
	minIdle := orDefault(r.MinIdle, DefaultMinIdle)
	for range retireTries {
		err = log.DeleteMember(ctx, r.Group, r.Member)
		var busy *redislog.MemberBusyError
		if !errors.As(err, &busy) {
			return moved, err
		}
		heir, heirErr := chooseHeir(ctx, log, r)
		if heirErr != nil {
			return moved, heirErr
		}
		n, handErr := log.HandOver(ctx, r.Group, r.Member, heir, minIdle)
		moved += n
		if handErr != nil {
			return moved, handErr
		}
		if n == 0 {
			return moved, err
		}
	}
	return moved, err
}

func chooseHeir(ctx context.Context, log *redislog.Log, r Retirement) (string, error) {
	members, err := log.Members(ctx, r.Group)
	if err != nil {
		return "", err
	}
	if heir := heirAmong(members, r.Member, r.Heir); heir != "" {
		return heir, nil
	}
	if r.Heir != "" {
		return "", fmt.Errorf("streamconsumer: retire %s of group %s: %s is no other member of it: %w", r.Member, r.Group, r.Heir, ErrNoHeir)
	}
	return "", fmt.Errorf("streamconsumer: retire %s of group %s: %w; start another member", r.Member, r.Group, ErrNoHeir)
}

// heirAmong picks who gets the entries of a member: the one asked for if it is
// there, else the one that was active last; "" when there is none.
func heirAmong(members []redislog.MemberInfo, leaving, asked string) string {
	others := slices.DeleteFunc(slices.Clone(members), func(m redislog.MemberInfo) bool {
		return m.Name == leaving || asked != "" && m.Name != asked
	})
	if len(others) == 0 {
		return ""
	}
	return slices.MinFunc(others, func(a, b redislog.MemberInfo) int { return int(min(max(a.Idle-b.Idle, -1), 1)) }).Name
}
