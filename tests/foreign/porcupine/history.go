package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"

	"github.com/anishathalye/porcupine"
)

// line is one event of the history; only what a judgement needs.
type line struct {
	Type      string          `json:"type"`
	F         string          `json:"f"`
	Op        string          `json:"op"`
	Zone      string          `json:"zone"`
	Partition int             `json:"partition"`
	Key       string          `json:"key"`
	Value     json.RawMessage `json:"value"`
	Expected  *int64          `json:"expected"`
	Found     *int64          `json:"found"`
	Applied   *bool           `json:"applied"`
	Inv       int64           `json:"inv"`
	Time      int64           `json:"time"`
	Lineage   *int64          `json:"lineage"`
	Read      string          `json:"read"`
	Steps     []step          `json:"steps"`
}

// step is an append or a read of a transaction, which has its own key.
type step struct {
	F     string          `json:"f"`
	Key   string          `json:"key"`
	Value json.RawMessage `json:"value"`
}

// byKey returns a line for each step of a transaction, with its times, and any other line as it
// is. Each key by itself must have an order of its steps, too.
func (l line) byKey() []line {
	if l.F != "transaction" {
		return []line{l}
	}
	lines := make([]line, 0, len(l.Steps))
	for number, own := range l.Steps {
		one := l
		one.Steps = nil
		one.F, one.Key, one.Value = own.F, own.Key, own.Value
		one.Op = fmt.Sprintf("%s/%d", l.Op, number+1)
		lines = append(lines, one)
	}
	return lines
}

// event is an operation: its completion, or its invoke if it has none.
type event struct {
	line
	value state
	open  bool // it may take effect at any time after its begin, or never
}

// Key is everything that happened to one key.
type Key struct {
	zone      string
	partition int
	name      string
	events    []event
	offset    int64
}

// readFiles returns all keys of some history files, sorted. A torn last line is left out; any other
// line that is not an event is an error.
func readFiles(paths []string, offset int64) ([]*Key, error) {
	type place struct {
		zone string
		key  string
	}
	keys := map[place]*Key{}
	invoked := map[string]line{}
	add := func(l line, open bool) error {
		value, err := decodeValue(l.Value)
		if err != nil {
			return fmt.Errorf("operation %s: %w", l.Op, err)
		}
		at := place{l.Zone, l.Key}
		if keys[at] == nil {
			keys[at] = &Key{zone: l.Zone, partition: l.Partition, name: l.Key, offset: offset}
		}
		keys[at].events = append(keys[at].events, event{line: l, value: value, open: open})
		return nil
	}
	completed := map[string]bool{}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		whole := bytes.HasSuffix(text, []byte("\n"))
		rows := bytes.Split(bytes.TrimSuffix(text, []byte("\n")), []byte("\n"))
		for number, row := range rows {
			if len(row) == 0 {
				continue
			}
			var l line
			if err := json.Unmarshal(row, &l); err != nil {
				if number == len(rows)-1 && !whole {
					break
				}
				return nil, fmt.Errorf("%s:%d: %w", path, number+1, err)
			}
			for _, one := range l.byKey() {
				switch one.Type {
				case "invoke":
					invoked[one.Op] = one
				case "ok", "info", "fail":
					completed[one.Op] = true
					if err := add(one, one.Type == "info"); err != nil {
						return nil, err
					}
				default:
					return nil, fmt.Errorf("%s:%d: an event of type %q", path, number+1, one.Type)
				}
			}
		}
	}
	for op, l := range invoked {
		if !completed[op] {
			if err := add(l, true); err != nil {
				return nil, err
			}
		}
	}
	sorted := make([]*Key, 0, len(keys))
	for _, key := range keys {
		slices.SortFunc(key.events, func(a, b event) int {
			return cmp.Or(cmp.Compare(a.Inv, b.Inv), cmp.Compare(a.Op, b.Op))
		})
		sorted = append(sorted, key)
	}
	slices.SortFunc(sorted, func(a, b *Key) int {
		return cmp.Or(
			cmp.Compare(a.zone, b.zone),
			cmp.Compare(a.partition, b.partition),
			cmp.Compare(a.name, b.name),
		)
	})
	return sorted, nil
}

// foreign says why linearizability of this key by itself is not the question; empty: it is.
func (k *Key) foreign() string {
	lineages := map[int64]bool{}
	for _, e := range k.events {
		switch e.F {
		case "read", "write", "cas", "append":
		default:
			return "an operation " + e.F
		}
		if e.Lineage != nil {
			lineages[*e.Lineage] = true
		}
	}
	if len(lineages) > 1 {
		// A reset may lose acknowledged writes, and says so elsewhere.
		return "several lineages"
	}
	return ""
}

// operations are those that a checker has to place: without failures, which never happened, bounded
// reads, which may be stale, and open reads, which nobody saw.
//
// Open writes whose value nobody saw are left out too. That changes no verdict: an order without one
// explains whatever an order with it does, because nothing can be read from it until the next write.
// Each of them would double the search.
func (k *Key) operations() []porcupine.Operation {
	seen := map[int64]bool{}
	for _, e := range k.events {
		if e.Type == "ok" && e.F == "read" {
			for _, value := range e.value.elements() {
				seen[value] = true
			}
		}
		for _, value := range []*int64{e.Expected, e.Found} {
			if value != nil {
				seen[*value] = true
			}
		}
	}
	var found []porcupine.Operation
	for _, e := range k.events {
		read := e.F == "read"
		if e.Type == "fail" || (read && (e.open || e.Read == "bounded")) {
			continue
		}
		finish := e.Time + k.offset
		if e.open {
			values := e.value.elements()
			if len(values) == 1 && !seen[values[0]] {
				continue
			}
			finish = math.MaxInt64
		}
		found = append(found, porcupine.Operation{
			Input: input{f: e.F, value: e.value, expected: register(e.Expected)},
			Output: output{
				open:    e.open,
				refused: e.Applied != nil && !*e.Applied,
				found:   register(e.Found),
				value:   e.value,
			},
			Call:   e.Inv - k.offset,
			Return: finish,
		})
	}
	return found
}

func decodeValue(raw json.RawMessage) (state, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return absent, nil
	}
	if raw[0] == '[' {
		var values []int64
		if err := json.Unmarshal(raw, &values); err != nil {
			return absent, fmt.Errorf("value %.40s is no list of integers: %w", raw, err)
		}
		return list(values), nil
	}
	var value int64
	if err := json.Unmarshal(raw, &value); err != nil {
		return absent, fmt.Errorf("value %.40s is no integer: %w", raw, err)
	}
	return register(&value), nil
}
