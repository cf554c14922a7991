import type { FormEvent } from "react";
import { PageAccountField } from "../../ui/account-form.tsx";
import { TextArea } from "../../ui/field.tsx";
import { typesetMinus } from "../../ui/format-amount.ts";
import { AnswerFacts } from "./answer-facts.tsx";
import type { PanelProps } from "./chat-panel.tsx";
import { cosine, readEmbedded } from "./embedded-answer.ts";
import type { Embedded, EmbeddingsFormState } from "./form-answer.ts";
import { CodeSamples, FailureNotice, FormErrors, ModelSelect, SendBar } from "./panel-parts.tsx";
import { embeddingsCode } from "./request-code.ts";
import { draftEmbeddings, maxEmbeddedTexts, readEmbeddingsForm } from "./single-form.ts";
import { formOf, usePanelForm } from "./use-panel-form.ts";
import { useSingle } from "./use-single.ts";

/** Renders a form for texts, and shows their vectors and how similar they are. */
export function EmbeddingsPanel({ workspaceId, gatewayUrl, models, answered }: PanelProps<EmbeddingsFormState>) {
  const { answer, failure, waiting, send, stop } = useSingle<Embedded>(
    `/api/v1/workspaces/${workspaceId}/ai/playground/embeddings`,
    { answer: answered?.embedded ?? null, failure: answered?.failure ?? null },
  );
  const initial = { typed: answered?.typed ?? { model: models[0]?.id ?? "" }, errors: answered?.errors ?? {} };
  const { form, typed, errors, attempts, tell, onInput, onKeyDown } = usePanelForm({ initial, busy: waiting, stop });

  function submit(event: FormEvent<HTMLFormElement>) {
    event.preventDefault();
    if (waiting) return;
    const read = readEmbeddingsForm(new FormData(event.currentTarget));
    tell("errors" in read ? read.errors : {});
    if ("body" in read) void send(read.body, async (response) => readEmbedded(await response.text(), read.body.input));
  }

  return (
    <>
      <form
        ref={form}
        method="post"
        noValidate
        aria-label="Embeddings"
        onSubmit={submit}
        onInput={onInput}
        onKeyDown={onKeyDown}
        className="grid grid-cols-1 gap-6 lg:grid-cols-[minmax(0,1fr)_20rem]"
      >
        <PageAccountField />
        <div className="min-w-0 space-y-4">
          <FormErrors errors={errors} attempts={attempts} />
          <TextArea
            name="input"
            label="Texts"
            hint={`One per line, at most ${maxEmbeddedTexts}. Each is compared with the first.`}
            rows={6}
            defaultValue={typed.input}
            error={errors.input}
          />
          <div className="flex flex-wrap items-center gap-3">
            <SendBar label="Embed" busy={waiting} stop={stop} />
          </div>
          <p role="status" className={waiting ? "text-muted" : "sr-only"}>
            {waiting ? "Embedding…" : answer ? "Embeddings created." : ""}
          </p>
          <FailureNotice failure={failure} />
          {answer ? <Vectors embedded={answer} workspaceId={workspaceId} /> : null}
        </div>
        <fieldset className="min-w-0 space-y-4">
          <legend className="sr-only">Settings</legend>
          <ModelSelect models={models} chosen={typed.model} />
        </fieldset>
      </form>
      <CodeSamples samples={embeddingsCode(draftEmbeddings(formOf(typed)), gatewayUrl)} />
    </>
  );
}

function Vectors({ embedded, workspaceId }: { embedded: Embedded; workspaceId: string }) {
  const { texts, vectors, facts } = embedded;
  const [first = []] = vectors;
  return (
    <section aria-label="Vectors" className="space-y-3 rounded-card border border-line bg-surface p-4">
      <table className="w-full text-left">
        <caption className="pb-2 text-left text-muted">{first.length} dimensions per vector</caption>
        <thead className="text-muted text-small">
          <tr className="border-line border-b">
            <th scope="col" className="py-2 pr-3 font-medium">
              Text
            </th>
            <th scope="col" className="py-2 text-right font-medium">
              Similarity to the first
            </th>
          </tr>
        </thead>
        <tbody>
          {texts.map((text, index) => (
            // biome-ignore lint/suspicious/noArrayIndexKey: the rows of one answer never move
            <tr key={index} className="border-line border-b last:border-b-0">
              <th scope="row" className="break-words py-2 pr-3 font-normal">
                {text}
              </th>
              <td className="py-2 text-right tabular-nums">
                {typesetMinus(cosine(first, vectors[index] ?? []).toFixed(3))}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      <AnswerFacts facts={facts} workspaceId={workspaceId} />
    </section>
  );
}
