package api_test

import (
	"errors"
	"fmt"

	"github.com/evtlog/evtlog/archive/replica/api"
)

func ExampleParseAddress() {
	a, err := api.ParseAddress("archive-1:7460,archive-1:7461")
	fmt.Println(a.Raft, a.HTTP, err)
	_, err = api.ParseAddress("archive-1:7460")
	fmt.Println(errors.Is(err, api.ErrBadRequest))
	// Output:
	// archive-1:7460 archive-1:7461 <nil>
	// true
}

func ExampleIdentity_Matches() {
	ours := api.Identity{Cluster: "prod", Incarnation: "1f"}
	fmt.Println(ours.Matches(api.Identity{Cluster: "prod"}))
	fmt.Println(ours.Matches(api.Identity{Cluster: "prod", Incarnation: "2e"}))
	// Output:
	// <nil>
	// replica: "prod/2e" does not belong to "prod/1f": correct the address, the cluster id or the directory
}
