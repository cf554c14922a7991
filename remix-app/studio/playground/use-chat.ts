import { useEffect, useRef, useState } from "react";
import { type AssistantMessage, answerEntry, type ChatBody, type ChatMessage, type Entry } from "./chat-message.ts";
import type { Failure } from "./failure.ts";
import { findRunFacts, type StreamedChat, streamChat } from "./stream-chat.ts";

/** A conversation in this browser, and nowhere else. */
export interface Chat {
  entries: readonly Entry[];
  /** What has come of the answer under way; null where none is. */
  coming: AssistantMessage | null;
  failure: Failure | null;
  /** @returns the answer as far as it came; null where nothing did, and then nothing was said */
  send: (body: ChatBody, added: readonly ChatMessage[]) => Promise<Entry | null>;
  stop: () => void;
  clear: () => void;
}

const nothing: AssistantMessage = { role: "assistant", content: null };

/** @param initial what was said before this script ran */
export function useChat(workspaceId: string, initial: { entries: readonly Entry[]; failure: Failure | null }): Chat {
  const [entries, setEntries] = useState(initial.entries);
  const [coming, setComing] = useState<AssistantMessage | null>(null);
  const [failure, setFailure] = useState(initial.failure);
  const running = useRef<AbortController | null>(null);
  useEffect(() => () => running.current?.abort(), []);

  async function send(body: ChatBody, added: readonly ChatMessage[]): Promise<Entry | null> {
    const controller = new AbortController();
    running.current = controller;
    const requestId = `playground-${crypto.randomUUID()}`;
    const before = entries;
    const asked = [...before, ...added.map((message) => ({ message }))];
    setEntries(asked);
    setFailure(null);
    setComing(nothing);
    const paint = paintedOnce();
    const streamed = await streamChat({
      url: `/api/v1/workspaces/${workspaceId}/ai/playground/chat`,
      body,
      requestId,
      signal: controller.signal,
      onProgress: (look) => paint(() => running.current === controller && setComing(look().message)),
    });
    if (running.current !== controller) return null;
    running.current = null;
    setComing(null);
    const entry = entryOf(streamed, body);
    setEntries(entry ? [...asked, entry] : before);
    const unsaid = streamed.stopped && !entry ? { sentence: stoppedAtOnce, requestId } : null;
    setFailure(streamed.failure ?? unsaid);
    if (streamed.stopped && entry) void tellWhatItCost(requestId, entry);
    return entry;
  }

  /** A stopped run tells its cost to nobody: it is asked for once it is settled. */
  async function tellWhatItCost(requestId: string, entry: Entry): Promise<void> {
    const facts = await findRunFacts(workspaceId, requestId);
    if (facts) setEntries((now) => now.map((each) => (each === entry ? { ...entry, facts } : each)));
  }

  return {
    entries,
    coming,
    failure,
    send,
    stop: () => running.current?.abort(),
    clear: () => {
      running.current?.abort();
      running.current = null;
      setComing(null);
      setFailure(null);
      setEntries([]);
    },
  };
}

const stoppedAtOnce = "Stopped before the first token. What the provider had already done is listed under Runs.";

/** Calls of tools that have not come whole are nobody's to answer. */
function entryOf({ answer, failure, stopped }: StreamedChat, body: ChatBody): Entry | null {
  if (!stopped && !failure) return answerEntry(answer, body);
  const { content, refusal } = answer.message;
  if (content === null && refusal === undefined) return null;
  const message: AssistantMessage = { role: "assistant", content, ...(refusal === undefined ? {} : { refusal }) };
  return { message, note: stopped ? "Stopped. What you received is metered." : "The answer was cut off here." };
}

/** Many events come between two pictures; one is painted. */
function paintedOnce(): (paint: () => void) => void {
  let waiting = false;
  return (paint) => {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => {
      waiting = false;
      paint();
    });
  };
}
