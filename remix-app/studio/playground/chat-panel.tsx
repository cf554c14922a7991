import { type FormEvent, useEffect, useState } from "react";
import { PageAccountField } from "../../ui/account-form.tsx";
import { ButtonLink } from "../../ui/button.tsx";
import { draftChat, readChatForm } from "./chat-form.ts";
import { type Entry, openToolCalls } from "./chat-message.ts";
import { ChatSettings } from "./chat-settings.tsx";
import { Conversation } from "./conversation.tsx";
import type { ChatFormState } from "./form-answer.ts";
import type { PlaygroundModel } from "./list-models.ts";
import { CodeSamples, Composer, FailureNotice, FormErrors, SendBar } from "./panel-parts.tsx";
import { chatCode } from "./request-code.ts";
import { useChat } from "./use-chat.ts";
import { formOf, typedIn, usePanelForm } from "./use-panel-form.ts";

/** The button's labels for zero, one and several tool results. */
const sendLabels = ["Send", "Send result", "Send results"];

/** Screen readers announce only the beginning of longer answers. The conversation shows the whole text. */
const maxAnnouncedCharacters = 600;

export interface PanelProps<FormState> {
  workspaceId: string;
  gatewayUrl: string;
  /** The models of the panel's kind, at least one. */
  models: readonly PlaygroundModel[];
  /** The result of the form, if it was posted without JavaScript. */
  answered: FormState | undefined;
}

/**
 * Renders a conversation with a model. Without JavaScript the form is posted and the page contains the whole answer.
 * With JavaScript, answers are streamed.
 */
export function ChatPanel({ workspaceId, gatewayUrl, models, answered }: PanelProps<ChatFormState>) {
  const chat = useChat(workspaceId, { entries: answered?.entries ?? [], failure: answered?.failure ?? null });
  const messages = chat.entries.map(({ message }) => message);
  const busy = chat.coming !== null;
  const initial = { typed: answered?.typed ?? { model: models[0]?.id ?? "" }, errors: answered?.errors ?? {} };
  const { form, typed, setTyped, errors, attempts, tell, onInput, onKeyDown } = usePanelForm({
    initial,
    busy,
    stop: chat.stop,
  });
  const [announcement, setAnnouncement] = useState("");

  const calls = openToolCalls(messages);
  const firstField = calls.length > 0 ? "result0" : "prompt";
  // biome-ignore lint/correctness/useExhaustiveDependencies: what had the focus may be gone with each of these
  useEffect(() => {
    if (attempts > 0 && document.activeElement === document.body) fieldOf(form.current, firstField)?.focus();
  }, [firstField, calls[0]?.id, chat.entries.length === 0, busy]);

  async function submit(event: FormEvent<HTMLFormElement>) {
    event.preventDefault();
    if (busy) return;
    const fields = new FormData(event.currentTarget);
    const read = readChatForm(fields, messages);
    tell("errors" in read ? read.errors : {});
    if ("errors" in read) return;
    const prompt = fieldOf(form.current, "prompt");
    if (prompt) prompt.value = "";
    setTyped({ ...typedIn(fields), prompt: "" });
    setAnnouncement("Answering…");
    const answer = await chat.send({ ...read.body, stream: true }, read.added);
    setAnnouncement(answer ? announcementOf(answer) : "There is no answer.");
    if (answer) return setTyped(withoutResults);
    // Restores the typed text, unless something else has been typed since.
    const restored = fieldOf(form.current, "prompt");
    if (restored?.value === "") restored.value = String(fields.get("prompt") ?? "");
    setTyped((now) => ({ ...typedIn(fields), ...now, prompt: restored?.value ?? "" }));
  }

  const body = { ...draftChat(formOf(typed), messages), stream: true as const };
  return (
    <>
      <form
        ref={form}
        method="post"
        noValidate
        aria-label="Chat"
        onSubmit={(event) => void submit(event)}
        onInput={onInput}
        onKeyDown={onKeyDown}
        className="grid grid-cols-1 gap-6 lg:grid-cols-[minmax(0,1fr)_20rem]"
      >
        <PageAccountField />
        <input type="hidden" name="conversation" value={JSON.stringify(chat.entries)} />
        <div className="min-w-0 space-y-4">
          <FormErrors errors={errors} attempts={attempts} />
          <Conversation entries={chat.entries} coming={chat.coming} workspaceId={workspaceId} />
          <p role="status" className="sr-only">
            {announcement}
          </p>
          <FailureNotice failure={chat.failure} />
          <Composer calls={calls} typed={typed} errors={errors} />
          <div className="flex flex-wrap items-center gap-3">
            <SendBar label={sendLabels[Math.min(calls.length, 2)] ?? "Send"} busy={busy} stop={chat.stop} />
            {chat.entries.length > 0 && !busy ? (
              <ButtonLink
                href="?kind=chat"
                variant="quiet"
                onClick={(event) => {
                  event.preventDefault();
                  chat.clear();
                }}
              >
                New conversation
              </ButtonLink>
            ) : null}
          </div>
        </div>
        <ChatSettings models={models} typed={typed} errors={errors} />
      </form>
      <CodeSamples samples={chatCode(body, gatewayUrl)} />
    </>
  );
}

function fieldOf(form: HTMLFormElement | null, name: string): HTMLTextAreaElement | null {
  return form?.querySelector(`textarea[name=${name}]`) ?? null;
}

/** Removes the typed tool results, because the next tool calls have their own. */
function withoutResults(typed: Record<string, string>): Record<string, string> {
  return Object.fromEntries(Object.entries(typed).filter(([name]) => !name.startsWith("result")));
}

/** Returns the text that screen readers announce once for a completed answer. */
function announcementOf({ message, note }: Entry): string {
  const calls = message.role === "assistant" ? (message.tool_calls ?? []) : [];
  const callTexts = calls.map(({ function: { name } }) => `The model calls ${name} and waits for its result.`);
  return [message.content?.slice(0, maxAnnouncedCharacters), ...callTexts, note].filter(Boolean).join(" ");
}
