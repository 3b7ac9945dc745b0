---------------------------- MODULE ZonequakeRaft ----------------------------
(* Raft as zonequake's data nodes run it, where it differs from the textbook:     *)
(*                                                                                *)
(* - A configuration is a complete set that acts when it is appended. A change    *)
(*   goes old -> joint (both halves decide) -> new; a leader's first entry is its *)
(*   current configuration.                                                       *)
(* - A reset makes one survivor a group of its own, without a majority. It begins *)
(*   a lineage. A term holds its lineage: lineage * 100 + number.                 *)
(* - Who knows of a lineage that its own configuration is not of abstains.        *)
(* - Leaders acknowledge only while their node's Lease lasts (it is in `topo`); a *)
(*   node that comes back is told of a reset first, and so are those that never   *)
(*   left, before the survivor begins.                                            *)
(* - A replica that lost its state comes back as another peer.                    *)
(*                                                                                *)
(* An exchange of messages is one step: an election with all who vote in it, one  *)
(* entry to one follower and its answer. Messages that are lost or late are steps *)
(* that don't happen. Left out: pre-vote, check-quorum and the gate before JOINT, *)
(* which only forbid steps, so that this model can do more than the core; and     *)
(* snapshots, doubled messages and reads, which are the simulation's matter.      *)
(*                                                                                *)
(* `Off` names rules that are switched off: TLC must find out what each is for.   *)
EXTENDS Naturals, Sequences, FiniteSets, TLC

CONSTANTS
    Peers,       \* all that may ever be members
    First,       \* the first configuration
    None,        \* no peer
    WishSizes,   \* sizes of the sets that the operator may wish for
    MaxNumber,   \* elections, by the number in a term; one more in a new lineage
    MaxChanges, MaxResets, MaxWrites, MaxLosses,
    MaxDepth,    \* states on a way from the first; 0: no bound
    Off

VARIABLES
    term, vote, role, log,  \* of each peer
    match,                  \* of each leader: what it knows each peer to hold
    commit,                 \* of each leader
    topo,                   \* peers on nodes whose Lease lasts
    gone,                   \* peers that lost their state
    survivor,               \* whom the operator chose for the reset
    changes, writes,        \* how many there were
    chosen, chosenIn,       \* of each lineage: what was acknowledged, and in which term last
    newest,                 \* the newest lineage that acknowledged something
    broken                  \* what must never happen, and did

vars == <<term, vote, role, log, match, commit, topo, gone, survivor, changes, writes, chosen,
          chosenIn, newest, broken>>

Symmetry == Permutations(First)

Rules == {"both-halves", "joint-committed", "own-term", "newest-log", "one-vote", "abstain",
          "new-incarnation", "lease", "told-on-return", "told-before-reset", "one-survivor", "token"}
ASSUME Off \subseteq Rules
Holds(rule) == rule \notin Off

Lineages == 0..MaxResets
Lineage(t) == t \div 100
Number(t) == t % 100

\* An entry names the configuration that acts once it is appended, and the place of the entry that
\* brought it: its own, or an earlier one.
Entry(t, conf, at) == [t |-> t, conf |-> conf, at |-> at]
Nobody == [new |-> {}, old |-> {}]
Alone(p) == [new |-> {p}, old |-> {}]

Max(S) == CHOOSE x \in S : \A y \in S : y <= x
LastTerm(l) == IF l = <<>> THEN 0 ELSE l[Len(l)].t
ConfIndex(l) == IF l = <<>> THEN 0 ELSE l[Len(l)].at
Conf(l) == IF l = <<>> THEN Nobody ELSE l[Len(l)].conf
Members(conf) == conf.new \cup conf.old
IsPrefix(a, b) == Len(a) <= Len(b) /\ SubSeq(b, 1, Len(a)) = a
\* How many entries two logs begin with alike.
Common(a, b) ==
    LET both == 1..(IF Len(a) < Len(b) THEN Len(a) ELSE Len(b))
        differ == {i \in both : a[i] # b[i]} IN
    IF differ = {} THEN Cardinality(both) ELSE (CHOOSE i \in differ : \A j \in differ : i <= j) - 1

Majority(V, S) == 2 * Cardinality(V \cap S) > Cardinality(S)
Decides(V, conf) ==
    /\ Majority(V, conf.new)
    /\ (conf.old # {} /\ Holds("both-halves")) => Majority(V, conf.old)

Leads(p) == role[p] = "leader" /\ p \notin gone
Abstains(p) ==
    /\ Holds("abstain")
    /\ log[p] # <<>>
    /\ Lineage(log[p][ConfIndex(log[p])].t) < Lineage(term[p])

Init ==
    /\ term = [p \in Peers |-> IF p \in First THEN 1 ELSE 0]
    /\ vote = [p \in Peers |-> None]
    /\ role = [p \in Peers |-> "follower"]
    /\ log = [p \in Peers |->
                IF p \in First THEN <<Entry(1, [new |-> First, old |-> {}], 1)>> ELSE <<>>]
    /\ match = [p \in Peers |-> [q \in Peers |-> 0]]
    /\ commit = [p \in Peers |-> 0]
    /\ topo = Peers
    /\ gone = {}
    /\ survivor = None
    /\ changes = 0
    /\ writes = 0
    /\ chosen = [l \in Lineages |-> <<>>]
    /\ chosenIn = [l \in Lineages |-> 0]
    /\ newest = 0
    /\ broken = {}

AppendConf(p, t, conf) == log' = [log EXCEPT ![p] = Append(@, Entry(t, conf, Len(@) + 1))]
Nothing == [q \in Peers |-> 0]
\* Those in S follow: what a leader knew is gone.
Follow(S) ==
    /\ role' = [p \in Peers |-> IF p \in S THEN "follower" ELSE role[p]]
    /\ match' = [p \in Peers |-> IF p \in S THEN Nothing ELSE match[p]]
    /\ commit' = [p \in Peers |-> IF p \in S THEN 0 ELSE commit[p]]

----------------------------------------------------------------------------------
\* Elections

MayVote(q, p, t) ==
    /\ q \notin gone
    /\ ~Abstains(q)
    /\ \/ term[q] < t
       \/ term[q] = t /\ ~Leads(q) /\ (vote[q] \in {None, p} \/ ~Holds("one-vote"))
    /\ \/ LastTerm(log[p]) > LastTerm(log[q])
       \/ LastTerm(log[p]) = LastTerm(log[q]) /\ Len(log[p]) >= Len(log[q])
       \/ ~Holds("newest-log")

\* Who was removed by an entry that may not be committed may still be needed as a leader.
MayCampaign(p) ==
    /\ p \notin gone
    /\ ~Abstains(p)
    /\ \E i \in DOMAIN log[p] : p \in Members(log[p][i].conf)

\* The term may be any later one: p has heard of others, or tried in vain. A leader that restarts or
\* steps down is one that does no more until here. No vote is superfluous: who has heard of a later
\* term can do less.
Elect(p, t, V) ==
    /\ Decides(V \cup {p}, Conf(log[p]))
    /\ \A q \in V : ~Decides((V \ {q}) \cup {p}, Conf(log[p]))
    /\ term' = [q \in Peers |-> IF q \in V \cup {p} THEN t ELSE term[q]]
    /\ vote' = [q \in Peers |-> IF q \in V \cup {p} THEN p ELSE vote[q]]
    /\ role' = [q \in Peers |->
                  IF q = p THEN "leader" ELSE IF q \in V THEN "follower" ELSE role[q]]
    /\ match' = [q \in Peers |-> IF q \in V \cup {p} THEN Nothing ELSE match[q]]
    /\ commit' = [q \in Peers |-> IF q \in V \cup {p} THEN 0 ELSE commit[q]]
    /\ AppendConf(p, t, Conf(log[p]))
    /\ UNCHANGED <<topo, gone, survivor, changes, writes, chosen, chosenIn, newest, broken>>

Elections(p) ==
    /\ MayCampaign(p)
    /\ \E number \in 1..(MaxNumber + Lineage(term[p])) :
        LET t == 100 * Lineage(term[p]) + number IN
        /\ t > term[p]
        /\ \E V \in SUBSET {q \in Members(Conf(log[p])) \ {p} : MayVote(q, p, t)} : Elect(p, t, V)

----------------------------------------------------------------------------------
\* Replication

Write(p) ==
    /\ Leads(p)
    /\ writes < MaxWrites
    /\ writes' = writes + 1
    /\ log' = [log EXCEPT ![p] = Append(@, Entry(term[p], Conf(@), ConfIndex(@)))]
    /\ UNCHANGED <<term, vote, role, match, commit, topo, gone, survivor, changes, chosen, chosenIn,
                   newest, broken>>

\* One more entry, or the news that q holds all.
Replicate(p, q) ==
    LET same == Common(log[p], log[q])
        upTo == IF same < Len(log[p]) THEN same + 1 ELSE same IN
    /\ Leads(p)
    /\ q # p
    /\ q \in Members(Conf(log[p])) \ gone
    /\ term[q] < term[p] \/ (term[q] = term[p] /\ ~Leads(q))
    /\ match[p][q] # upTo \/ term[q] # term[p]
    /\ term' = [term EXCEPT ![q] = term[p]]
    /\ vote' = [vote EXCEPT ![q] = IF term[q] = term[p] THEN @ ELSE None]
    /\ role' = [role EXCEPT ![q] = "follower"]
    /\ match' = [match EXCEPT ![p] = [@ EXCEPT ![q] = upTo], ![q] = Nothing]
    /\ commit' = [commit EXCEPT ![q] = 0]
    /\ log' = IF same < Len(log[p])
              THEN [log EXCEPT ![q] = SubSeq(log[p], 1, upTo)]
              ELSE log
    /\ UNCHANGED <<topo, gone, survivor, changes, writes, chosen, chosenIn, newest, broken>>

Held(p, n) == {p} \cup {q \in Peers : match[p][q] >= n}
Committable(p) ==
    {n \in DOMAIN log[p] :
        /\ n > commit[p]
        /\ log[p][n].t = term[p] \/ ~Holds("own-term")
        /\ Decides(Held(p, n), Conf(log[p]))}

\* The leader acknowledges what is committed.
Commit(p) ==
    LET n == Max(Committable(p))
        l == Lineage(term[p])
        acknowledged == SubSeq(log[p], 1, n) IN
    /\ Leads(p)
    /\ p \in topo \/ ~Holds("lease")
    /\ Committable(p) # {}
    /\ commit' = [commit EXCEPT ![p] = n]
    /\ chosen' = IF n > Len(chosen[l]) THEN [chosen EXCEPT ![l] = acknowledged] ELSE chosen
    /\ chosenIn' = [chosenIn EXCEPT ![l] = Max({@, term[p]})]
    /\ newest' = Max({newest, l})
    /\ broken' = broken
        \cup (IF IsPrefix(chosen[l], acknowledged) \/ IsPrefix(acknowledged, chosen[l])
              THEN {} ELSE {"an acknowledged entry was lost"})
        \cup (IF l < newest THEN {"two lineages acknowledge"} ELSE {})
    /\ UNCHANGED <<term, vote, role, log, match, topo, gone, survivor, changes, writes>>

----------------------------------------------------------------------------------
\* Changes of the configuration

Change(p, wish) ==
    LET conf == Conf(log[p]) IN
    /\ Leads(p)
    /\ changes < MaxChanges
    /\ conf.old = {}
    /\ wish # conf.new
    /\ ConfIndex(log[p]) <= commit[p]
    /\ changes' = changes + 1
    /\ AppendConf(p, term[p], [new |-> wish, old |-> conf.new])
    /\ UNCHANGED <<term, vote, role, match, commit, topo, gone, survivor, writes, chosen, chosenIn,
                   newest, broken>>

\* A leader, this one or a later one, goes on from JOINT with nobody asking.
Finish(p) ==
    LET conf == Conf(log[p]) IN
    /\ Leads(p)
    /\ conf.old # {}
    /\ ConfIndex(log[p]) <= commit[p] \/ ~Holds("joint-committed")
    /\ AppendConf(p, term[p], [new |-> conf.new, old |-> {}])
    /\ UNCHANGED <<term, vote, role, match, commit, topo, gone, survivor, changes, writes, chosen,
                   chosenIn, newest, broken>>

----------------------------------------------------------------------------------
\* The reset: one at most, so its token, and lineage, is 1

Told(q) == Lineage(term[q]) >= 1
Tell(q) ==
    /\ term' = [term EXCEPT ![q] = IF Told(q) THEN @ ELSE 100]
    /\ vote' = [vote EXCEPT ![q] = IF Told(q) THEN @ ELSE None]
    /\ IF Told(q) THEN UNCHANGED <<role, match, commit>> ELSE Follow({q})

\* The operator chooses, at any time and whomever: that it has good reasons is not needed here.
Decide(p) ==
    /\ MaxResets > 0
    /\ survivor = None \/ (~Holds("one-survivor") /\ survivor # p)
    /\ p \notin gone
    /\ log[p] # <<>>
    /\ survivor' = p
    /\ UNCHANGED <<term, vote, role, log, match, commit, topo, gone, changes, writes, chosen,
                   chosenIn, newest, broken>>

\* An order reaches a node that never left.
Order(q) ==
    /\ survivor \notin {None, q}
    /\ q \in topo \ gone
    /\ log[q] # <<>>
    /\ ~Told(q)
    /\ Tell(q)
    /\ UNCHANGED <<log, topo, gone, survivor, changes, writes, chosen, chosenIn, newest, broken>>

MayReset(p) ==
    /\ p = survivor
    /\ p \notin gone
    /\ Lineage(log[p][ConfIndex(log[p])].t) < 1 \/ ~Holds("token")
    /\ Number(term[p]) <= MaxNumber
    /\ Holds("told-before-reset") =>
        \A q \in topo \ (gone \cup {p}) : log[q] = <<>> \/ Told(q)

Forced(p) == 100 + Number(term[p]) + 1

Reset(p) ==
    /\ MayReset(p)
    /\ term' = [term EXCEPT ![p] = Forced(p)]
    /\ vote' = [vote EXCEPT ![p] = p]
    /\ role' = [role EXCEPT ![p] = "leader"]
    /\ match' = [match EXCEPT ![p] = Nothing]
    /\ commit' = [commit EXCEPT ![p] = 0]
    /\ AppendConf(p, Forced(p), Alone(p))
    /\ UNCHANGED <<topo, gone, survivor, changes, writes, chosen, chosenIn, newest,
                   broken>>

\* It crashes when its vote is stored and its first entry is not; the operator repeats the reset.
HalfReset(p) ==
    /\ MayReset(p)
    /\ Lineage(term[p]) < 1
    /\ term' = [term EXCEPT ![p] = Forced(p)]
    /\ vote' = [vote EXCEPT ![p] = p]
    /\ Follow({p})
    /\ UNCHANGED <<log, topo, gone, survivor, changes, writes, chosen,
                   chosenIn, newest, broken>>

\* Before the reset is decided, and for who knows of it, an end of a Lease only forbids steps.
LeaseEnds(q) ==
    /\ survivor \notin {None, q}
    /\ q \in topo \ gone
    /\ log[q] # <<>>
    /\ ~Told(q)
    /\ topo' = topo \ {q}
    /\ UNCHANGED <<term, vote, role, log, match, commit, gone, survivor, changes, writes, chosen,
                   chosenIn, newest, broken>>

Return(q) ==
    /\ q \notin topo
    /\ topo' = topo \cup {q}
    /\ IF Holds("told-on-return") /\ q # survivor
       THEN Tell(q)
       ELSE UNCHANGED <<term, vote, role, match, commit>>
    /\ UNCHANGED <<log, gone, survivor, changes, writes, chosen, chosenIn, newest, broken>>

----------------------------------------------------------------------------------
\* Lost state: a volatile replica restarts, or a disk is gone. Its new incarnation is another peer.

Losses == Cardinality(gone)

Lose(p) ==
    /\ Losses < MaxLosses
    /\ p \notin gone
    /\ gone' = gone \cup {p}
    /\ Follow({p})
    /\ UNCHANGED <<term, vote, log, topo, survivor, changes, writes, chosen, chosenIn, newest,
                   broken>>

\* Without the rule the same peer goes on, empty; `writes` bounds it.
LoseAndGoOn(p) ==
    /\ ~Holds("new-incarnation")
    /\ writes < MaxWrites
    /\ writes' = writes + 1
    /\ log[p] # <<>>
    /\ term' = [term EXCEPT ![p] = 0]
    /\ vote' = [vote EXCEPT ![p] = None]
    /\ log' = [log EXCEPT ![p] = <<>>]
    /\ Follow({p})
    /\ UNCHANGED <<topo, gone, survivor, changes, chosen, chosenIn, newest, broken>>

----------------------------------------------------------------------------------

Wishes == {S \in SUBSET Peers : Cardinality(S) \in WishSizes}

Next == \E p \in Peers :
    \/ Elections(p)
    \/ Write(p)
    \/ \E q \in Peers : Replicate(p, q)
    \/ Commit(p)
    \/ \E wish \in Wishes : Change(p, wish)
    \/ Finish(p)
    \/ Decide(p)
    \/ Order(p)
    \/ Reset(p)
    \/ HalfReset(p)
    \/ LeaseEnds(p)
    \/ Return(p)
    \/ Lose(p)
    \/ LoseAndGoOn(p)

Spec == Init /\ [][Next]_vars

NotTooDeep == MaxDepth = 0 \/ TLCGet("level") < MaxDepth

----------------------------------------------------------------------------------
\* What must hold. A term names its lineage, so the first two hold within each.

OneLeader == \A p, q \in Peers : Leads(p) /\ Leads(q) /\ term[p] = term[q] => p = q

LogMatching == \A p, q \in Peers : \A i \in DOMAIN log[p] \cap DOMAIN log[q] :
    (log[p][i].t = log[q][i].t) =>
        (log[p][i] = log[q][i] /\ (i = 1 \/ log[p][i - 1].t = log[q][i - 1].t))

LeaderCompleteness == \A p \in Peers :
    (Leads(p) /\ term[p] >= chosenIn[Lineage(term[p])])
        => IsPrefix(chosen[Lineage(term[p])], log[p])

NothingAcknowledgedIsLost == "an acknowledged entry was lost" \notin broken

OneLineageAcknowledges == "two lineages acknowledge" \notin broken

ResetLeavesOne == \A p \in Peers : \A i \in DOMAIN log[p] :
    (Lineage(log[p][i].t) > 0 /\ (i = 1 \/ Lineage(log[p][i - 1].t) = 0))
        => Cardinality(log[p][i].conf.new) = 1 /\ log[p][i].conf.old = {}

==============================================================================
