package keyspace_test

import (
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/evtlog/evtlog/evtid"
	"github.com/evtlog/evtlog/keyspace"
)

const jobID = "JOB0KHTOWnGLuC"

type text struct {
	Bytes []byte `json:"b64"`
}

type keyVector struct {
	Key  []byte `json:"key_b64"`
	Slot uint16 `json:"slot"`
}

type slotVector struct {
	Key  string `json:"key"`
	Slot uint16 `json:"slot"`
}

// vectors were produced by the implementation that the keys are shared with;
// their slots by CLUSTER KEYSLOT of a server. It checks no names, so some of
// its vectors are names that are refused here.
type vectors struct {
	Grammar struct {
		VersionFence      string `json:"version_fence"`
		VersionFenceValue string `json:"version_fence_value"`
	} `json:"grammar"`
	Vectors []struct {
		Queue, Stream text
		Keys          map[string]keyVector
		Note          string
	} `json:"vectors"`
	PlainSlots []slotVector `json:"plain_slots"`
}

func load(t testing.TB) (v vectors) {
	t.Helper()
	raw, err := os.ReadFile("testdata/keys.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatal(err)
	}
	if len(v.Vectors) == 0 || len(v.PlainSlots) == 0 {
		t.Fatal("no vectors")
	}
	return v
}

func stream(t testing.TB, queue, name string) keyspace.Stream {
	t.Helper()
	s, err := keyspace.NewStream(queue, name)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// accepted says by the rule, in other words than the code, which vectors pass.
func accepted(queue, name string) (queueOK, nameOK bool) {
	queueOK = queue != "" && len(queue) <= 128 && utf8.ValidString(queue) && !strings.ContainsAny(queue, "{} \x00\r\n")
	nameOK = name != "" && len(name) <= 128 && strings.Trim(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-") == ""
	return queueOK, nameOK
}

func TestKeyVectors(t *testing.T) {
	made, refused := 0, 0
	for _, v := range load(t).Vectors {
		queue, name := string(v.Queue.Bytes), string(v.Stream.Bytes)
		queueOK, nameOK := accepted(queue, name)
		got := map[string]string{}
		s, err := keyspace.NewStream(queue, name)
		if queueOK && nameOK {
			got["stream"], got["archived"] = s.Key(), s.Archived()
			made++
		} else {
			checkRefusal(t, v.Note, err, queueOK, queue, name)
			refused++
		}
		key, err := keyspace.JobKey(queue, jobID)
		if queueOK {
			got["job"], got["events"] = key, keyspace.Events(queue)
			if err != nil {
				t.Errorf("%s: job: %v", v.Note, err)
			}
		} else {
			checkRefusal(t, v.Note, err, false, queue, jobID)
		}
		for what, key := range got {
			want := v.Keys[what]
			if key != string(want.Key) || keyspace.Slot(key) != want.Slot {
				t.Errorf("%s: %s: %q in slot %d, want %q in %d", v.Note, what, key, keyspace.Slot(key), want.Key, want.Slot)
			}
		}
	}
	if made != 7 || refused != 27 {
		t.Errorf("%d vectors made and %d refused; the file has changed", made, refused)
	}
}

func checkRefusal(t *testing.T, note string, err error, queueOK bool, queue, name string) {
	t.Helper()
	kind, value := keyspace.KindQueue, queue
	if queueOK {
		kind, value = keyspace.KindStream, name
	}
	var ne *keyspace.NameError
	if !errors.As(err, &ne) || ne.Kind != kind || ne.Value != value || ne.Reason == "" {
		t.Errorf("%s: %v, want a refusal of the %s %q", note, err, kind, value)
	}
}

// Names of foreign writers that are unusual but sound must open here.
func TestUnusualNames(t *testing.T) {
	for _, queue := range []string{":", "q:", "*", "q[1]", "?", `a\b`, "emq", "注文", "q😀", "e\u0301", "'\"`", strings.Repeat("q", 128)} {
		if _, err := keyspace.NewStream(queue, "s"); err != nil {
			t.Error(err)
		}
	}
	for _, name := range []string{".", "-", "_", "events", "version", "archived", "a.b-c_D9", ".dead", strings.Repeat("s", 128)} {
		if _, err := keyspace.NewStream("q", name); err != nil {
			t.Error(err)
		}
		if err := keyspace.CheckGroup(name); err != nil {
			t.Error(err)
		}
		if err := keyspace.CheckMember(name); err != nil {
			t.Error(err)
		}
	}
}

func TestRefusedNames(t *testing.T) {
	for _, queue := range []string{"", " ", "a b", "{", "}", "a}b", "{q}", "q\n", "q\x00", "q\x7f", "q\u00a0", "q\u2028", "q\u200b", "q\xff", "\u00ad", strings.Repeat("q", 129)} {
		if err := keyspace.CheckQueue(queue); err == nil {
			t.Errorf("queue %q was accepted", queue)
		}
	}
	for _, name := range []string{"", " ", "a b", ":", "s:archived", "a/b", "{s}", "é", "s\n", "s\x00", "*", "s\\", strings.Repeat("s", 129), strings.Repeat("s", 129) + ".dead"} {
		if _, err := keyspace.NewStream("q", name); err == nil {
			t.Errorf("stream %q was accepted", name)
		}
		for kind, err := range map[string]error{keyspace.KindGroup: keyspace.CheckGroup(name), keyspace.KindMember: keyspace.CheckMember(name)} {
			var ne *keyspace.NameError
			if !errors.As(err, &ne) || ne.Kind != kind || ne.Value != name {
				t.Errorf("%s %q: %v", kind, name, err)
			}
		}
	}
}

func TestNameErrorText(t *testing.T) {
	_, err := keyspace.NewStream("q", "s:archived")
	if want := `keyspace: stream name "s:archived" refused: byte 1 (":"): only A-Z a-z 0-9 . _ - are allowed`; err == nil || err.Error() != want {
		t.Errorf("got %v", err)
	}
	err = keyspace.CheckQueue("a{b")
	if want := `keyspace: queue name "a{b" refused: '{' at byte 1: braces, spaces and unprintable characters are not allowed`; err == nil || err.Error() != want {
		t.Errorf("got %v", err)
	}
	if err = keyspace.CheckQueue(strings.Repeat("q", 1<<20)); len(err.Error()) > 500 || !strings.Contains(err.Error(), "1048576 bytes") {
		t.Errorf("a long name makes a long message: %d bytes", len(err.Error()))
	}
}

func TestStream(t *testing.T) {
	s := stream(t, "cm", "feed")
	for _, pair := range [][2]string{
		{s.Queue(), "cm"},
		{s.Name(), "feed"},
		{s.String(), "cm/feed"},
		{s.Key(), "emq:{cm}:stream:feed"},
		{s.Archived(), "emq:{cm}:stream:feed:archived"},
		{s.Floor(), "emq:{cm}:stream:feed:floor"},
		{s.Epoch(), "emq:{cm}:stream:feed:epoch"},
		{s.Skipped("notify"), "emq:{cm}:stream:feed:skipped:notify"},
		{s.Lease("skipped"), "emq:{cm}:stream:feed:lease:skipped"},
		{s.Dead().Key(), "emq:{cm}:stream:feed.dead"},
		{keyspace.StreamPrefix("cm"), "emq:{cm}:stream:"},
		{keyspace.Events("cm"), "emq:{cm}:events"},
	} {
		if pair[0] != pair[1] {
			t.Errorf("got %q, want %q", pair[0], pair[1])
		}
	}
	if s != stream(t, "cm", "feed") {
		t.Error("two handles of one stream differ")
	}
}

// The dead stream of every stream opens by its name, however long that is.
func TestDeadOpensByName(t *testing.T) {
	for _, n := range []int{1, 122, 123, 124, 127, 128} {
		dead := stream(t, "q", strings.Repeat("s", n)).Dead()
		if got, err := keyspace.NewStream(dead.Queue(), dead.Name()); err != nil || got != dead {
			t.Errorf("%d bytes: %v, %v", n, got, err)
		}
	}
}

func TestFence(t *testing.T) {
	g := load(t).Grammar
	if keyspace.VersionKey != g.VersionFence || keyspace.VersionValue != g.VersionFenceValue {
		t.Errorf("fence %s = %s, want %s = %s", keyspace.VersionKey, keyspace.VersionValue, g.VersionFence, g.VersionFenceValue)
	}
}

func TestSlotVectors(t *testing.T) {
	for _, v := range load(t).PlainSlots {
		if got := keyspace.Slot(v.Key); got != v.Slot {
			t.Errorf("slot of %q is %d, want %d", v.Key, got, v.Slot)
		}
	}
}

// The gate in front of announcements is the rule of package evtid.
func TestJobKeyGate(t *testing.T) {
	var ids struct {
		Valid []struct {
			Branded string `json:"branded"`
		} `json:"valid"`
		Invalid []struct {
			Input []byte `json:"input_b64"`
		} `json:"invalid"`
	}
	raw, err := os.ReadFile("../evtid/testdata/ids.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, &ids); err != nil {
		t.Fatal(err)
	}
	passed := 0
	check := func(id string) {
		key, err := keyspace.JobKey("q", id)
		var ne *keyspace.NameError
		switch {
		case evtid.ValidBranded(id) == nil:
			passed++
			if err != nil || key != "emq:{q}:job:"+id {
				t.Errorf("%q: %q, %v", id, key, err)
			}
		case !errors.As(err, &ne) || ne.Kind != keyspace.KindJob || ne.Value != id || key != "":
			t.Errorf("%q: %q, %v", id, key, err)
		}
	}
	for _, v := range ids.Valid {
		check(v.Branded)
	}
	for _, v := range ids.Invalid {
		check(string(v.Input))
	}
	if passed <= len(ids.Valid) {
		t.Errorf("%d ids passed; ids of other namespaces should too", passed)
	}
}
