import { type ReactNode, useEffect, useRef } from "react";
import { AnswerFacts, StructuredAnswer } from "./answer-facts.tsx";
import type { AssistantMessage, ChatMessage, Entry } from "./chat-message.ts";

/** The conversation scrolls along with new text while the view is within this distance of the end. */
const nearEndPx = 48;

interface ConversationProps {
  entries: readonly Entry[];
  /** The part of the current answer received so far. */
  coming: AssistantMessage | null;
  workspaceId: string;
}

/** Shows the conversation as plain text. It scrolls separately, so that the content below does not move. */
export function Conversation({ entries, coming, workspaceId }: ConversationProps) {
  const region = useRef<HTMLElement>(null);
  const follows = useRef(true);
  // biome-ignore lint/correctness/useExhaustiveDependencies: each addition moves the end
  useEffect(() => {
    if (follows.current && region.current) region.current.scrollTop = region.current.scrollHeight;
  }, [entries, coming]);
  return (
    <section
      ref={region}
      aria-label="Conversation"
      // biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls must be within the keyboard's reach
      tabIndex={0}
      onScroll={({ currentTarget: { scrollTop, scrollHeight, clientHeight } }) => {
        follows.current = scrollHeight - scrollTop - clientHeight < nearEndPx;
      }}
      className="h-64 max-h-[60dvh] min-h-48 resize-y overflow-y-auto rounded-card border border-line bg-surface p-4 sm:h-96"
    >
      {entries.length === 0 && coming === null ? (
        <p className="text-muted">
          No messages yet. Write one below. The conversation isn’t saved when you leave this page.
        </p>
      ) : (
        <ol className="space-y-5">
          {entries.map(({ message, facts, structured, note }, index) => (
            // biome-ignore lint/suspicious/noArrayIndexKey: entries are only added at the end
            <MessageBubble key={index} message={message}>
              {structured && message.role === "assistant" ? (
                <StructuredAnswer text={message.content ?? ""} schemaValid={facts?.schemaValid} />
              ) : (
                <MessageText message={message} />
              )}
              {note ? <p className="text-small text-warn">{note}</p> : null}
              {facts ? <AnswerFacts facts={facts} workspaceId={workspaceId} /> : null}
            </MessageBubble>
          ))}
          {coming ? (
            <MessageBubble message={coming}>
              <MessageText message={coming} />
              <p aria-hidden="true" className="text-muted text-small">
                Answering…
              </p>
            </MessageBubble>
          ) : null}
        </ol>
      )}
    </section>
  );
}

const speakers = { user: "You", assistant: "Model", tool: "Tool" } as const;

function MessageBubble({ message, children }: { message: ChatMessage; children: ReactNode }) {
  return (
    <li className="space-y-1.5">
      <p className="font-medium text-muted text-small">{speakers[message.role]}</p>
      {children}
    </li>
  );
}

function MessageText({ message }: { message: ChatMessage }) {
  const calls = message.role === "assistant" ? (message.tool_calls ?? []) : [];
  const refusal = message.role === "assistant" ? message.refusal : undefined;
  return (
    <>
      {message.content ? <p className="whitespace-pre-wrap break-words">{message.content}</p> : null}
      {refusal ? <p className="whitespace-pre-wrap break-words text-warn">The model refused: {refusal}</p> : null}
      {calls.map(({ id, function: { name, arguments: text } }) => (
        <figure key={id} className="rounded-card border border-line">
          <figcaption className="border-line border-b bg-sunken px-3 py-1 font-medium text-muted text-small">
            Calls <code className="font-mono">{name}</code>
          </figcaption>
          <pre className="whitespace-pre-wrap break-words p-3 font-mono text-small">{indented(text)}</pre>
        </figure>
      ))}
    </>
  );
}

/** Indents JSON, and returns any other text unchanged. */
function indented(text: string): string {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}
