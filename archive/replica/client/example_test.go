package client_test

import (
	"errors"
	"fmt"

	"github.com/evtlog/evtlog/archive/replica/api"
	"github.com/evtlog/evtlog/archive/replica/client"
)

func ExampleNew() {
	c, err := client.New(client.Config{
		Addresses: []string{"archive-1:7461", "archive-2:7461", "archive-3:7461"},
		Cluster:   "prod",
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	fmt.Println("ready; it connects at the first call")

	_, err = client.New(client.Config{Addresses: []string{"archive-1"}})
	fmt.Println(errors.Is(err, api.ErrBadRequest))
	// Output:
	// ready; it connects at the first call
	// true
}
