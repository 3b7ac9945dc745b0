------------------------------ MODULE ProvenEnd ------------------------------
(* How a follower learns that its leader's process has ended, and what it may do  *)
(* then. `ZonequakeRaft` lets elections begin at any moment, and so leaves out    *)
(* what this is about: which proofs are right, and that no term begins while a    *)
(* majority hears its leader.                                                     *)
(*                                                                                *)
(* A process holds its address as long as it lives; meanwhile its node's next one *)
(* may start elsewhere, without the replica. A stopped process is one whose links *)
(* are cut. A follower connects to its leader's node, and forgets what it knows   *)
(* of that when it hears no leader.                                               *)
(*                                                                                *)
(* An attempt to connect is one step, and so is a pre-vote or a vote with all who *)
(* answer; what has no effect is a step that doesn't happen. Left out: logs and   *)
(* configurations, which `ZonequakeRaft` has; check-quorum and lots, which only   *)
(* forbid steps.                                                                  *)
(*                                                                                *)
(* `Off` names rules that are switched off: TLC must find out what each is for.   *)
EXTENDS Naturals, Sequences, FiniteSets, TLC

CONSTANTS
    Nodes,                                  \* each has a voter
    None,                                   \* no process, no address, no node
    MaxTerm, MaxKills, MaxStarts, MaxCuts,  \* the first term is 1; links that are cut at a time
    Off

VARIABLES
    home,     \* of each node: the addresses of its processes
    living,   \* processes: <<node, its how manieth>>
    cut,      \* links: sets of two nodes
    replica,  \* of each node
    broken    \* what must never happen, and did

vars == <<home, living, cut, replica, broken>>

Symmetry == Permutations(Nodes)

Rules == {"ended-first", "by-the-peer", "refused-then", "refused-there", "no-route", "same-address",
          "greets-again", "silence", "hears", "votes-once", "no-proxy", "in-time", "newest-process",
          "few-are-wrong"}
ASSUME Off \subseteq Rules
Holds(rule) == rule \notin Off

Node(p) == p[1]
At(p) == home[Node(p)][p[2]]
Processes == UNION {{<<n, i>> : i \in DOMAIN home[n]} : n \in Nodes}
Runs(n) == <<n, replica[n].process>> \in living
Linked(m, n) == {m, n} \notin cut
Majority(S) == 2 * Cardinality(S) > Cardinality(Nodes)
Leads(p) == p \in living /\ p[2] = replica[Node(p)].process /\ replica[Node(p)].role = "leader"
Term(p) == replica[Node(p)].term
Reaches(p, f) == Leads(p) /\ Linked(Node(p), f) /\ replica[f].term <= Term(p)

\* What is known of the leader's node: as in endings.py, and the process that the connection leads
\* to. `dropped`: the last one was ended by a process that lived.
Link(process, address, to) ==
    [process |-> process, address |-> address, to |-> to, lost |-> FALSE, dropped |-> FALSE]
NoLink == Link(None, None, None)

\* `leader`: the process that it hears. `contact`: that it has heard without silence since, and
\* without a proof of its end, right or wrong. What is promised to a leader counts those.
Follower(r, leader, link) ==
    [r EXCEPT !.role = "follower", !.leader = leader, !.contact = leader, !.link = link]
Idle(r) == Follower(r, None, NoLink)

Init ==
    /\ home = [n \in Nodes |-> <<1>>]
    /\ living = {<<n, 1>> : n \in Nodes}
    /\ cut = {}
    /\ \E first \in Nodes : replica = [n \in Nodes |->
        [process |-> 1, term |-> 1, vote |-> None, leader |-> None, contact |-> None,
         link |-> NoLink, role |-> IF n = first THEN "leader" ELSE "follower"]]
    /\ broken = {}

----------------------------------------------------------------------------------
\* Processes, and what is between them

Kill(p) ==
    /\ p \in living
    /\ Cardinality(Processes \ living) < MaxKills
    /\ living' = living \ {p}
    /\ replica' = [replica EXCEPT ![Node(p)] = IF p[2] = @.process THEN Idle(@) ELSE @]
    /\ UNCHANGED <<home, cut, broken>>

Start(n, address) ==
    LET i == Len(home[n]) + 1 IN
    /\ Cardinality(Processes) < Cardinality(Nodes) + MaxStarts
    /\ \A p \in living : Node(p) = n => At(p) # address
    /\ home' = [home EXCEPT ![n] = Append(@, address)]
    /\ living' = living \cup {<<n, i>>}
    /\ replica' = [replica EXCEPT ![n].process = IF Runs(n) THEN @ ELSE i]
    /\ UNCHANGED <<cut, broken>>

CutOrHeal(m, n) ==
    /\ m # n
    /\ cut' = IF Linked(m, n) THEN cut \cup {{m, n}} ELSE cut \ {{m, n}}
    /\ Cardinality(cut') <= MaxCuts
    /\ UNCHANGED <<home, living, replica, broken>>

----------------------------------------------------------------------------------
\* What proves an end

\* f knows `known` now, or that `ended` has ended, and forgets whom it hears of that node.
Learn(f, known, ended) ==
    LET heard == replica[f].contact IN
    /\ replica' = [replica EXCEPT ![f] =
        IF ended = None THEN [@ EXCEPT !.link = known]
        ELSE [Idle(@) EXCEPT
            !.contact = IF heard = ended /\ Holds("few-are-wrong") THEN None ELSE heard]]
    /\ broken' = IF ended \in living THEN broken \cup {"a living process was taken for ended"}
                 ELSE broken
    /\ UNCHANGED <<home, living, cut>>

Knows(f, p) == LET l == replica[f].leader IN l # None /\ Node(p) = Node(l) /\ Linked(f, Node(p))

\* Whom p has replaced where it was.
Replaced(f, p) ==
    LET known == replica[f].link IN
    IF p # known.process /\ (At(p) = known.address \/ ~Holds("same-address"))
    THEN known.process ELSE None

\* p answers on a connection that f made, which may be to replace another.
Greeted(f, p) ==
    LET known == replica[f].link
        stays == known.lost /\ p = known.process /\ ~Holds("greets-again") IN
    /\ Knows(f, p)
    /\ p \in living
    /\ Learn(f, [Link(p, At(p), p) EXCEPT !.lost = stays], Replaced(f, p))

\* p calls, and f has to call back. What a process said may come when it has ended.
Called(f, p) ==
    /\ Knows(f, p)
    /\ p # replica[f].link.process
    /\ p \in living \/ ~Holds("in-time")
    /\ Learn(f, Link(p, None, None), Replaced(f, p))

\* A connection is ended by the kernel of a process that is dead, by one that lives, or, if the link
\* is cut, by the network.
Lost(f) ==
    LET known == replica[f].link
        linked == Linked(f, Node(known.to))
        byPeer == linked \/ ~Holds("by-the-peer") IN
    /\ known.to # None
    /\ Learn(f, [known EXCEPT !.to = None, !.lost = byPeer,
                              !.dropped = linked /\ known.to \in living],
             IF byPeer /\ ~Holds("refused-then") THEN known.to ELSE None)

\* Nothing listens at the address, or a firewall refuses for who does. That there is no route is
\* said by the network.
Refused(f, address) ==
    LET known == replica[f].link
        n == Node(known.process)
        free == \A p \in living : Node(p) = n => At(p) # address IN
    /\ known.address # None
    /\ IF Linked(f, n) THEN free \/ ~known.dropped \/ ~Holds("no-proxy") ELSE ~Holds("no-route")
    /\ known.lost \/ ~Holds("ended-first")
    /\ known.address = address \/ ~Holds("refused-there")
    /\ Learn(f, NoLink, known.process)

----------------------------------------------------------------------------------
\* Who hears a leader, and elections

Follow(f, p) ==
    /\ f # Node(p)
    /\ Runs(f)
    /\ Reaches(p, f)
    /\ replica[f].leader # p
    /\ replica' = [replica EXCEPT ![f] =
        [Follower(@, p, Link(p, None, None)) EXCEPT
            !.term = Term(p), !.vote = IF replica[f].term = Term(p) THEN @ ELSE None]]
    /\ UNCHANGED <<home, living, cut, broken>>

TimeOut(f) ==
    LET l == replica[f].leader IN
    /\ l # None
    /\ ~Reaches(l, f) \/ ~Holds("silence")
    /\ replica' = [replica EXCEPT ![f] =
        [Idle(@) EXCEPT !.contact = IF Reaches(l, f) THEN replica[f].contact ELSE None]]
    /\ UNCHANGED <<home, living, cut, broken>>

\* q gives n its pre-vote, or its vote, for term t.
Grants(q, n, t) ==
    LET r == replica[q] IN
    /\ q # n
    /\ Runs(q)
    /\ Linked(q, n)
    /\ (r.leader = None /\ r.role # "leader") \/ ~Holds("hears")
    /\ r.term < t \/ (r.term = t /\ (r.vote \in {None, n} \/ ~Holds("votes-once")))

\* S has voted for n in term t.
Vote(S, n, t, role) == replica' = [q \in Nodes |->
    IF q \in S
    THEN [Idle(replica[q]) EXCEPT !.term = t, !.vote = n, !.role = IF q = n THEN role ELSE @]
    ELSE replica[q]]

\* A pre-vote is won, and a term begins: a leader that hears of it steps down.
Stand(n) ==
    LET t == replica[n].term + 1
        IsHeard(p) ==
            /\ Leads(p)
            /\ Term(p) < t
            /\ Majority({Node(p)} \cup {f \in Nodes : replica[f].contact = p})
            /\ p[2] = Len(home[Node(p)]) \/ ~Holds("newest-process") IN
    /\ Runs(n)
    /\ replica[n].leader = None
    /\ replica[n].role # "leader"
    /\ t <= MaxTerm
    /\ Majority({n} \cup {q \in Nodes : Grants(q, n, t)})
    /\ Vote({n}, n, t, "candidate")
    /\ broken' = IF \E p \in living : IsHeard(p) THEN broken \cup {"a heard leader was deposed"}
                 ELSE broken
    /\ UNCHANGED <<home, living, cut>>

Win(n) ==
    LET t == replica[n].term IN
    /\ replica[n].role = "candidate"
    /\ \E S \in SUBSET {q \in Nodes : Grants(q, n, t)} :
        /\ Majority(S \cup {n})
        /\ \A q \in S : ~Majority((S \ {q}) \cup {n})
        /\ Vote(S \cup {n}, n, t, "leader")
    /\ UNCHANGED <<home, living, cut, broken>>

----------------------------------------------------------------------------------

Next ==
    \/ \E p \in Processes, n \in Nodes : Greeted(n, p) \/ Called(n, p) \/ Follow(n, p)
    \/ \E n \in Nodes, address \in {1, 2} : Start(n, address) \/ Refused(n, address)
    \/ \E n \in Nodes : Lost(n) \/ TimeOut(n) \/ Stand(n) \/ Win(n)
    \/ \E p \in Processes : Kill(p)
    \/ \E m, n \in Nodes : CutOrHeal(m, n)

Spec == Init /\ [][Next]_vars

----------------------------------------------------------------------------------
\* What must hold

WhatIsProvenHasEnded == "a living process was taken for ended" \notin broken

WhoIsHeardStays == "a heard leader was deposed" \notin broken

OneLeader == \A p, q \in living : Leads(p) /\ Leads(q) /\ Term(p) = Term(q) => p = q

==============================================================================
