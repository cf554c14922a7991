import { type ActionFunctionArgs, data, type LoaderFunctionArgs } from "@remix-run/node";
import { useActionData, useLoaderData } from "@remix-run/react";
import { maxBodyBytes } from "../../http/body-limit.ts";
import { readForm } from "../../http/form.ts";
import type { RouteHandle } from "../../http/route-table.ts";
import { searchTerm } from "../../http/search-params.ts";
import type { PlaygroundEndpoint } from "../../studio/playground/call-gateway-as-member.ts";
import { ChatPanel } from "../../studio/playground/chat-panel.tsx";
import { EmbeddingsPanel } from "../../studio/playground/embeddings-panel.tsx";
import type { FormAnswer } from "../../studio/playground/form-answer.ts";
import { listPlaygroundModels, type PlaygroundModel } from "../../studio/playground/list-models.ts";
import { answerForm, contentRetentionDays } from "../../studio/playground/run-form.ts";
import { SpeechPanel } from "../../studio/playground/speech-panel.tsx";
import { pageTitle } from "../../ui/brand.ts";
import { Notice } from "../../ui/notice.tsx";
import { SearchForm } from "../../ui/search-form.tsx";
import { StudioPage } from "../../ui/studio-page.tsx";
import { requirePermission } from "../../workspaces/permission.ts";

export const handle: RouteHandle = { hydrate: true };

export const meta = pageTitle<typeof loader>((data) => `Playground · ${data?.workspace.name ?? "Workspace"}`);

const permission = "use_ai_studio";

const endpointTabs: { kind: PlaygroundEndpoint; label: string; models: PlaygroundModel["kind"] }[] = [
  { kind: "chat", label: "Chat", models: "chat" },
  { kind: "speech", label: "Speech", models: "speech" },
  { kind: "embeddings", label: "Embeddings", models: "embedding" },
];

const modelsShown = 100;
const includesIgnoringCase = (text: string, term: string) => text.toLowerCase().includes(term.toLowerCase());

export async function loader({ request, params, context }: LoaderFunctionArgs) {
  const { workspace, member } = await requirePermission(context, { request, params, permission });
  const [models, retentionDays] = await Promise.all([
    listPlaygroundModels(context, { workspaceId: workspace.id, signal: request.signal }),
    contentRetentionDays(context, member),
  ]);
  const gatewayUrl = `${context.env.AI_URL}/v1`;
  const kind = readEndpoint(request);
  const term = searchTerm(request);
  const modelKind = endpointTabs.find((each) => each.kind === kind)?.models;
  const ofKind = models?.filter((model) => model.kind === modelKind);
  const usable = ofKind?.filter(({ isChat }) => isChat || modelKind !== "chat");
  const chosenId = new URL(request.url).searchParams.get("model");
  // The first model is the one that the form shows.
  const chosen = usable?.filter(({ id }) => id === chosenId) ?? [];
  const found = usable?.filter(({ id, name }) => includesIgnoringCase(id, term) || includesIgnoringCase(name, term));
  return {
    workspace,
    kind,
    term,
    none: usable?.length === 0,
    elsewhere: ofKind?.filter((model) => !usable?.includes(model)).map(({ id }) => id) ?? [],
    models: found ? [...new Set([...chosen, ...found])].slice(0, modelsShown) : null,
    more: (found?.length ?? 0) > modelsShown,
    retentionDays,
    gatewayUrl,
  };
}

/** Answers the form if JavaScript is off: the response is a page with the complete answer. Stores nothing. */
export async function action({ request, params, context }: ActionFunctionArgs) {
  const { workspace } = await requirePermission(context, { request, params, permission });
  const form = await readForm(request, context, { maxValueLength: maxBodyBytes });
  const posted = { kind: readEndpoint(request), form, workspaceId: workspace.id, signal: request.signal };
  const answer = await answerForm(context, posted);
  return data(answer, { status: Object.keys(answer.errors).length > 0 ? 400 : 200 });
}

function readEndpoint(request: Request): PlaygroundEndpoint {
  const kindParameter = new URL(request.url).searchParams.get("kind");
  return endpointTabs.find(({ kind }) => kind === kindParameter)?.kind ?? "chat";
}

export default function PlaygroundPage() {
  const { workspace, kind, term, none, elsewhere, models, more, retentionDays, gatewayUrl } =
    useLoaderData<typeof loader>();
  const answer = useActionData<typeof action>();
  const panel = { workspaceId: workspace.id, gatewayUrl };
  return (
    <StudioPage
      title="Playground"
      lead="Try models without an API key. Each request is recorded as your run in this workspace and billed like any other."
    >
      <nav aria-label="Kind of model" className="flex flex-wrap gap-2">
        {endpointTabs.map((each) => (
          <a
            key={each.kind}
            href={`?kind=${each.kind}`}
            aria-current={each.kind === kind ? "page" : undefined}
            className="rounded-button border border-line px-3 py-1 font-medium text-muted hover:text-ink aria-[current=page]:border-accent aria-[current=page]:bg-accent-soft aria-[current=page]:text-ink"
          >
            {each.label}
          </a>
        ))}
      </nav>
      {retentionDays === null ? null : (
        <Notice>
          This workspace keeps the prompts and answers of each run for {retentionDays}{" "}
          {retentionDays === 1 ? "day" : "days"}.
        </Notice>
      )}
      {more || term ? (
        <>
          <SearchForm label="Find a model" term={term} keep={{ kind }} />
          {more ? <p className="text-muted">The first {modelsShown} models. Search to find others.</p> : null}
        </>
      ) : null}
      {models === null ? (
        <Notice tone="warn">
          We couldn’t load the models. Try reloading this page in a moment. If that doesn’t help, contact an
          administrator.
        </Notice>
      ) : models.length === 0 && !none ? (
        <Notice>No model matches “{term}”. Search for part of its name or ID.</Notice>
      ) : models.length === 0 ? (
        <Notice>
          This workspace can’t use any model of this kind. Its plan or AI policy doesn’t allow one. Ask an owner.
        </Notice>
      ) : (
        <Panel key={kind} kind={kind} answer={answer} {...panel} models={models} />
      )}
      {elsewhere.length > 0 ? (
        <p className="text-muted">
          Not available in this chat: {elsewhere.slice(0, modelsShown).join(", ")}. Call{" "}
          {elsewhere.length === 1 ? "it" : "them"} through{" "}
          <a href="/docs/api/gateway/text#createMessage" className="link">
            the Messages API
          </a>
          .
        </p>
      ) : null}
    </StudioPage>
  );
}

interface PanelChoice {
  kind: PlaygroundEndpoint;
  answer: FormAnswer | undefined;
  workspaceId: string;
  gatewayUrl: string;
  models: readonly PlaygroundModel[];
}

function Panel({ kind, answer, ...panel }: PanelChoice) {
  if (kind === "speech") return <SpeechPanel {...panel} answered={answer?.kind === "speech" ? answer : undefined} />;
  if (kind === "embeddings") {
    return <EmbeddingsPanel {...panel} answered={answer?.kind === "embeddings" ? answer : undefined} />;
  }
  return <ChatPanel {...panel} answered={answer?.kind === "chat" ? answer : undefined} />;
}
