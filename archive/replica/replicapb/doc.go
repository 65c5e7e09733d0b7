// Package replicapb is the generated form of archive.proto: the messages and
// the service that the nodes of a replicated archive and their clients speak.
// Package api turns them into the types that programs use.
package replicapb

//go:generate protoc -I . --go_out=. --go_opt=paths=source_relative --connect-go_out=. --connect-go_opt=paths=source_relative,package_suffix= archive.proto
