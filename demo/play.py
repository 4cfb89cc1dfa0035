"""The conversation: a bicycle shop's support agent and two customers, with the server killed in the middle of it."""

from __future__ import annotations

import time

import amemdb
from demo.server import Server
from demo.stage import Stage
from demo.words import DIMENSIONS, vector

CODE_SECONDS = 4
"""How long the note lives that is to be seen expiring."""
POLL_SECONDS = 0.1


def play(stage: Stage) -> None:
    """All acts, on a server of their own."""
    with Server() as server, amemdb.Client(port=server.port, decode_responses=True) as client:
        stage.act("amemdb: a support conversation")
        stage.tell(f"A server runs on port {server.port}, with its data in {server.data}. Both go when this ends.")
        stage.tell("→ is what the program asks of the client, ← what comes back, ✗ what the server refuses.")
        knowledge(stage, client)
        ada_asks(stage, client)
        bruno_asks(stage, client)
        correction(stage, client)
        mistakes(stage, client)
        crash(stage, client, server)
        looking_back(stage, client)


def knowledge(stage: Stage, client: amemdb.Client[str]) -> None:
    stage.act("1. What the agent knows")
    stage.tell("""Facts have a vector and are found by it. In this demo a vector only says which words a text has; an
        agent gets better ones from an embedding model. Where a fact comes from is kept with it.""")
    stage.ask(client.amem_sem_create, "shop", DIMENSIONS)
    for key, text in (
        ("returns", "A bicycle can be returned within 14 days."),
        ("shipping", "Shipping to Norway takes 4 days."),
        ("warranty", "The warranty on frames is 5 years."),
    ):
        stage.ask(client.amem_sem_store, "shop", key, text, vector(text), source="handbook", trust="trusted")


def ada_asks(stage: Stage, client: amemdb.Client[str]) -> None:
    stage.act("2. Ada asks")
    stage.tell("A session is a bounded window of turns. This one ends by itself after a day.")
    question = "How many days until I can no longer return my bicycle?"
    stage.ask(client.amem_conv_create, "ada", window=20, ttl=86_400)
    stage.ask(client.amem_conv_append, "ada", "user", question, id="ada-1")
    stage.tell("The connection broke before the answer? Sent again with its id, a turn is not there twice:")
    stage.ask(client.amem_conv_append, "ada", "user", question, id="ada-1")
    stage.tell("The agent looks up the fact that is most like the question, answers, and notes what it did.")
    best = stage.ask(client.amem_sem_recall, "shop", 1, vector(question))[0]
    stage.ask(client.amem_conv_append, "ada", "assistant", best["content"], id="ada-2")
    stage.ask(client.amem_work_set, "ada", "order", "A-1017")
    stage.ask(client.amem_epis_log, "support", "lookup", "Read the return policy for Ada")


def bruno_asks(stage: Stage, client: amemdb.Client[str]) -> None:
    stage.act("3. Bruno asks at the same time, and sees nothing of Ada")
    stage.ask(client.amem_conv_create, "bruno", window=3, ttl=86_400)
    for role, text in (
        ("user", "Hello!"),
        ("assistant", "Hello Bruno, what can I do for you?"),
        ("user", "My frame broke after two years."),
        ("assistant", "That is covered: the warranty on frames is 5 years."),
    ):
        stage.ask(client.amem_conv_append, "bruno", role, text)
    stage.tell("His window holds 3 turns, so the first has gone:")
    stage.ask(client.amem_conv_get, "bruno")
    stage.tell(f"A note with an end: his code for the return is good for {CODE_SECONDS} seconds, on this stage.")
    stage.ask(client.amem_work_set, "bruno", "code", "7731", ttl=CODE_SECONDS)
    stage.ask(client.amem_work_get, "bruno", "code")
    left_ms = stage.ask(client.amem_work_ttl, "bruno", "code")
    stage.tell(f"That is in milliseconds: at {_clock(left_ms)} it is over, whatever happens until then.")
    stage.tell("Notes belong to their session. Ada's order is none of his:")
    stage.ask(client.amem_work_get, "bruno", "order")


def correction(stage: Stage, client: amemdb.Client[str]) -> None:
    stage.act("4. A fact is corrected")
    text = "A bicycle can be returned within 30 days."
    stage.tell(
        "The policy has changed. The same key replaces text, vector and all: the old fact is not found any more."
    )
    stage.ask(client.amem_sem_store, "shop", "returns", text, vector(text), source="handbook 2", trust="trusted")
    found = stage.ask(client.amem_sem_recall, "shop", 3, vector("Until when can a bicycle be returned?"), threshold=0.3)
    stage.ask(client.amem_conv_append, "ada", "assistant", f"I was wrong. {found[0]['content']}", id="ada-3")
    stage.ask(client.amem_epis_log, "support", "correction", "Told Ada: 30 days, not 14")
    stage.ask(client.amem_summary_set, "support", "Ada asked about returns, Bruno about the warranty.")


def mistakes(stage: Stage, client: amemdb.Client[str]) -> None:
    stage.act("5. Mistakes are told, and change nothing")
    stage.ask(client.amem_conv_append, "ada", "customer", "Thank you!")
    stage.ask(client.amem_conv_append, "adaa", "user", "Thank you!")
    stage.ask(client.amem_sem_recall, "shop", 1, [1.0, 0.5])
    stage.tell("Two workers write the summary. The second does not know of the first, and is told so:")
    stage.ask(client.amem_summary_set, "support", "All is well.", if_version=7)


def crash(stage: Stage, client: amemdb.Client[str], server: Server) -> None:
    stage.act("6. kill -9, and start again")
    server.kill()
    stage.tell("The server is gone, in the middle of everything: no flush, no goodbye.")
    server.start()
    stage.tell(f"It is back, and says: {server.loaded}.")
    stage.tell("What was acknowledged is there. The same client goes on; it connects again by itself.")
    stage.ask(client.amem_conv_get, "ada")
    stage.ask(client.amem_work_getall, "ada")
    stage.ask(client.amem_sem_get, "shop", "returns")
    stage.tell("Bruno's code keeps its time: a restart does not make it live longer.")
    while client.amem_work_ttl("bruno", "code") >= 0:
        time.sleep(POLL_SECONDS)
    stage.tell(f"It is {_clock(0)} now.")
    stage.ask(client.amem_work_get, "bruno", "code")
    stage.ask(client.amem_work_ttl, "bruno", "code")


def looking_back(stage: Stage, client: amemdb.Client[str]) -> None:
    stage.act("7. Looking back")
    stage.tell("What the agent did, in order, and its summary with version and time:")
    stage.ask(client.amem_epis_query, "support")
    stage.ask(client.amem_summary_get, "support")
    stage.tell("A session that is dropped takes its notes along:")
    stage.ask(client.amem_conv_drop, "ada")
    stage.ask(client.amem_work_get, "ada", "order")


def _clock(ahead_ms: int) -> str:
    return time.strftime("%H:%M:%S", time.localtime(time.time() + ahead_ms / 1000))
