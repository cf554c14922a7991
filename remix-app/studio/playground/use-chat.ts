import { useEffect, useRef, useState } from "react";
import { type AssistantMessage, answerEntry, type ChatBody, type ChatMessage, type Entry } from "./chat-message.ts";
import type { Failure } from "./failure.ts";
import { findRunFacts, type StreamedChat, streamChat } from "./stream-chat.ts";

/** A conversation stored only in this browser. */
export interface Chat {
  entries: readonly Entry[];
  /** The part of the current answer received so far, or null if there is none. */
  coming: AssistantMessage | null;
  failure: Failure | null;
  /**
   * @returns the answer as far as it arrived, or null if nothing arrived, in which case the conversation is unchanged
   */
  send: (body: ChatBody, added: readonly ChatMessage[]) => Promise<Entry | null>;
  stop: () => void;
  clear: () => void;
}

const emptyMessage: AssistantMessage = { role: "assistant", content: null };

/** @param initial the conversation as rendered by the server */
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
    const history = [...before, ...added.map((message) => ({ message }))];
    setEntries(history);
    setFailure(null);
    setComing(emptyMessage);
    const paint = paintOncePerFrame();
    const streamed = await streamChat({
      url: `/api/v1/workspaces/${workspaceId}/ai/playground/chat`,
      body,
      requestId,
      signal: controller.signal,
      onProgress: (snapshot) => paint(() => running.current === controller && setComing(snapshot().message)),
    });
    if (running.current !== controller) return null;
    running.current = null;
    setComing(null);
    const entry = entryOf(streamed, body);
    setEntries(entry ? [...history, entry] : before);
    const unsaid = streamed.stopped && !entry ? { sentence: stoppedAtOnce, requestId } : null;
    setFailure(streamed.failure ?? unsaid);
    if (streamed.stopped && entry) void announceCost(requestId, entry);
    return entry;
  }

  /**
   * Adds the cost of a stopped run to its entry. The stream of a stopped run reports no cost, so the cost is fetched
   * after the run is settled.
   */
  async function announceCost(requestId: string, entry: Entry): Promise<void> {
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

/** Returns the entry for a streamed answer. Drops incomplete tool calls, because they cannot be answered. */
function entryOf({ answer, failure, stopped }: StreamedChat, body: ChatBody): Entry | null {
  if (!stopped && !failure) return answerEntry(answer, body);
  const { content, refusal } = answer.message;
  if (content === null && refusal === undefined) return null;
  const message: AssistantMessage = { role: "assistant", content, ...(refusal === undefined ? {} : { refusal }) };
  return { message, note: stopped ? "Stopped. What you received is metered." : "The answer was cut off here." };
}

/** Schedules one render per frame, because several events may arrive between two frames. */
function paintOncePerFrame(): (paint: () => void) => void {
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
