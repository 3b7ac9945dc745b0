package main

import (
	"encoding/binary"

	"github.com/anishathalye/porcupine"
)

// state is what a key holds: nothing, one integer (kind 'r'), or a list (kind 'l'), as bytes, so that
// states are values that can be compared.
type state string

const absent = state("")

func register(value *int64) state {
	if value == nil {
		return absent
	}
	return state(binary.BigEndian.AppendUint64([]byte{'r'}, uint64(*value)))
}

// list of these elements; an empty one is no list yet.
func list(values []int64) state {
	if len(values) == 0 {
		return absent
	}
	held := []byte{'l'}
	for _, value := range values {
		held = binary.BigEndian.AppendUint64(held, uint64(value))
	}
	return state(held)
}

func (s state) elements() []int64 {
	var values []int64
	for at := 1; at < len(s); at += 8 {
		values = append(values, int64(binary.BigEndian.Uint64([]byte(s[at:at+8]))))
	}
	return values
}

type input struct {
	f        string
	value    state // what is written or appended
	expected state
}

type output struct {
	open    bool  // nobody was told what happened
	refused bool  // a cas that found another value
	found   state // by a refused cas
	value   state // what was read
}

// contents is what the search steps through: what the key holds, and how many answers have shown
// that so far.
type contents struct {
	held  state
	shown int
}

// cell models one key, a register with compare-and-set or an append-list, for these operations.
//
// If every value is written only once, what a key holds never comes back once it is gone. So a step
// is refused that leaves contents behind which an answer still has to show, and one that begins a
// list which no longer can become the longest list shown. Such steps lead nowhere; without this the
// search would find out only after it had tried all that can follow, and an outage, in which dozens
// of operations overlap, would never be decided.
func cell(operations []porcupine.Operation, plain bool) porcupine.Model {
	ahead := &lookout{answers: map[state]int{}}
	if !plain && writesAreUnique(operations) {
		ahead.look(operations)
	}
	return porcupine.Model{
		Init: func() any { return contents{} },
		Step: func(before, asked, told any) (bool, any) {
			now, out := before.(contents), told.(output)
			legal, after := apply(now.held, asked.(input), out)
			switch {
			case !legal:
				return false, now
			case after == now.held:
				if !out.open {
					now.shown++
				}
				return true, now
			case !out.open && asked.(input).f == "cas":
				now.shown++
			}
			return ahead.allows(now, after), contents{held: after}
		},
	}
}

// apply says whether the operation may have been told this by a key that holds `now`, and what the
// key holds afterwards.
func apply(now state, in input, out output) (bool, state) {
	switch in.f {
	case "read":
		return out.value == now, now
	case "write":
		return true, in.value
	case "append":
		if now == absent {
			now = "l"
		}
		return now[0] == 'l', now + in.value[1:]
	}
	// A cas. An open one that finds another value than it expects changes nothing.
	switch {
	case out.open && now != in.expected:
		return true, now
	case out.refused:
		return now == out.found && now != in.expected, now
	default:
		return now == in.expected, in.value
	}
}

// lookout knows how many answers show each contents, and the longest list among them.
type lookout struct {
	answers map[state]int
	longest state
}

func (l *lookout) look(operations []porcupine.Operation) {
	for _, o := range operations {
		in, out := o.Input.(input), o.Output.(output)
		switch {
		case out.open:
		case in.f == "read":
			l.answers[out.value]++
			if len(out.value) > len(l.longest) {
				l.longest = out.value
			}
		case in.f == "cas" && out.refused:
			l.answers[out.found]++
		case in.f == "cas":
			l.answers[in.expected]++
		}
	}
}

func (l *lookout) allows(now contents, after state) bool {
	if now.shown < l.answers[now.held] {
		return false
	}
	if after[0] != 'l' {
		return true
	}
	shorter := min(len(after), len(l.longest))
	return after[:shorter] == l.longest[:shorter]
}

func writesAreUnique(operations []porcupine.Operation) bool {
	written := map[state]bool{}
	for _, o := range operations {
		if in := o.Input.(input); in.f != "read" {
			if written[in.value] {
				return false
			}
			written[in.value] = true
		}
	}
	return true
}
