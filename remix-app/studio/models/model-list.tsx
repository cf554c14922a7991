import { ButtonLink } from "../../ui/button.tsx";
import { DotSeparated } from "../../ui/facts.tsx";
import { formatCount, formatExactCredits, formatExactUsd } from "../../ui/format-amount.ts";
import { kindLabels } from "../model-choice/model-picker.tsx";
import { itemWords } from "../runs/pricing-words.ts";
import { creditsOf, type Model, type ModelRoute, type PricedTier } from "./models.ts";

/** The playground's tabs, by the kind of model. */
const playgroundKinds = { chat: "chat", embedding: "embeddings", speech: "speech" } as const;
/** The paths that the playground calls. A text model may be served by others only. */
const playgroundPaths = ["/v1/chat/completions", "/v1/embeddings", "/v1/audio/speech"];

/** Lists models with their limits and prices. */
export function ModelList({ models, workspaceId }: { models: readonly Model[]; workspaceId: string }) {
  return (
    <ul className="divide-y divide-line">
      {models.map((model) => (
        <ModelEntry key={model.id} model={model} workspaceId={workspaceId} />
      ))}
    </ul>
  );
}

function ModelEntry({ model, workspaceId }: { model: Model; workspaceId: string }) {
  const { id, name, kind, endpoints, contextWindow, routes, creditsPerUsd } = model;
  const [first] = routes;
  const base = first?.tiers[0];
  const query = new URLSearchParams({ kind: playgroundKinds[kind], model: id });
  return (
    <li className="space-y-3 py-5 first:pt-0 last:pb-0">
      <div className="flex flex-wrap items-start justify-between gap-x-6 gap-y-2">
        <div className="min-w-0">
          <h2 className="wrap-anywhere font-semibold text-large">{name}</h2>
          <p className="wrap-anywhere text-muted">
            <code className="select-all font-mono text-ink text-small">{id}</code>
            {" · "}
            <DotSeparated facts={[kindLabels[kind], model.default ? "default" : null]} />
          </p>
        </div>
        <div className="flex flex-wrap gap-2">
          {endpoints.some((path) => playgroundPaths.includes(path)) ? (
            <ButtonLink href={`/workspaces/${workspaceId}/ai/playground?${query}`}>
              Try<span className="sr-only"> {name}</span>
            </ButtonLink>
          ) : null}
          <button type="button" data-copies={id} className="button button-secondary gap-1">
            <span aria-live="polite">Copy</span> ID<span className="sr-only"> of {name}</span>
          </button>
        </div>
      </div>
      <dl className="grid grid-cols-2 gap-x-6 gap-y-3 sm:grid-cols-[repeat(auto-fill,minmax(9rem,1fr))]">
        {base ? <Prices tier={base} creditsPerUsd={creditsPerUsd} /> : null}
        <Fact term="Context" text={contextWindow === null ? "Unknown" : `${formatCount(contextWindow)} tokens`} />
        {kind === "chat" ? <Fact term="Output limit" text={outputLimitText(model)} /> : null}
      </dl>
      <p className="wrap-anywhere text-muted text-small">
        {endpoints.length === 0 ? "No endpoint serves this model now." : endpoints.join(", ")}
      </p>
      {hasMorePrices(routes) ? (
        <details>
          <summary className="min-h-6 w-fit cursor-pointer rounded-button text-muted hover:text-ink">
            All prices<span className="sr-only"> of {name}</span>
          </summary>
          <div className="space-y-4 pt-3">
            {routes.map((route, index) => (
              <RoutePrices key={route.provider} route={route} position={index + 1} creditsPerUsd={creditsPerUsd} />
            ))}
          </div>
        </details>
      ) : null}
    </li>
  );
}

/** Returns the model's output limit, and that of chat completions if it is lower. */
function outputLimitText({ outputLimit, chatOutputLimit }: Pick<Model, "outputLimit" | "chatOutputLimit">): string {
  if (outputLimit === null) return "Unknown";
  const chat =
    chatOutputLimit !== null && chatOutputLimit < outputLimit
      ? `, ${formatCount(chatOutputLimit)} with chat completions`
      : "";
  return `${formatCount(outputLimit)} tokens${chat}`;
}

/** Returns whether routes have prices other than the first one of the first route, which each entry shows. */
function hasMorePrices(routes: readonly ModelRoute[]): boolean {
  return (
    routes.length > 1 ||
    routes.some(({ tiers, multipliers }) => tiers.length > 1 || Object.keys(multipliers).length > 0)
  );
}

function RoutePrices({
  route: { provider, model, tiers, multipliers },
  position,
  creditsPerUsd,
}: {
  route: ModelRoute;
  position: number;
  creditsPerUsd: string | null;
}) {
  return (
    <section className="space-y-3 border-line border-l-2 pl-3">
      <h3 className="wrap-anywhere font-medium">{`Route ${position}: ${provider}, ${model}`}</h3>
      {tiers.map((tier) => (
        <div key={`${tier.serviceTier} ${tier.minInputTokens}`} className="space-y-2">
          <h4 className="text-muted">{tierWords(tier)}</h4>
          <dl className="grid grid-cols-2 gap-x-6 gap-y-3 sm:grid-cols-[repeat(auto-fill,minmax(9rem,1fr))]">
            <Prices tier={tier} creditsPerUsd={creditsPerUsd} />
          </dl>
        </div>
      ))}
      {Object.entries(multipliers).map(([name, times]) => (
        <p key={name}>{`Service tier ${name}: default prices ×${times}`}</p>
      ))}
    </section>
  );
}

function tierWords({ serviceTier, minInputTokens }: PricedTier): string {
  const service = serviceTier === "default" ? "Default service tier" : `Service tier ${serviceTier}`;
  return minInputTokens > 0 ? `${service}, from ${formatCount(minInputTokens)} input tokens` : service;
}

function Prices({ tier: { prices }, creditsPerUsd }: { tier: PricedTier; creditsPerUsd: string | null }) {
  return prices.map(({ item, usd }) => (
    <Fact
      key={item}
      // Text models answer with text, so “Output” alone is clear here.
      term={itemWords[item].replace(/ \(.*/, "")}
      text={formatExactUsd(usd)}
      note={creditsPerUsd === null ? null : `${formatExactCredits(creditsOf(usd, creditsPerUsd))} credits`}
    />
  ));
}

function Fact({ term, text, note = null }: { term: string; text: string; note?: string | null }) {
  return (
    <div className="min-w-0">
      <dt className="text-muted text-small">{term}</dt>
      <dd className="wrap-anywhere tabular-nums">{text}</dd>
      {note === null ? null : <dd className="wrap-anywhere text-muted text-small tabular-nums">{note}</dd>}
    </div>
  );
}
