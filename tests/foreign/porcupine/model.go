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

// cell is one key: a register with compare-and-set, or an append-list.
var cell = porcupine.Model{
	Init: func() any { return absent },
	Step: func(before, asked, told any) (bool, any) {
		now, in, out := before.(state), asked.(input), told.(output)
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
	},
}
