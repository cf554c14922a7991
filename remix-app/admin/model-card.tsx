import { buttonClass } from "../ui/button.tsx";
import { Card } from "../ui/card.tsx";
import { DataTable } from "../ui/data-table.tsx";
import type { CatalogueModel, ModelPrice } from "./models.ts";
import { modelFault } from "./providers.ts";
import { usd } from "./words.ts";

const cell = "border-line border-t py-2 pr-4 align-top last:pr-0";
const head = "pr-4 pb-2 font-medium last:pr-0";
const wide = "hidden sm:table-cell";
const number = "text-right tabular-nums";

/** A model: whether it is open, and its prices, those to come first. */
export function ModelCard({ model }: { model: CatalogueModel }) {
  const { id, kind, ownedBy, enabled, providers, prices } = model;
  const shown = shownPrices(prices);
  const step = (name: string, more: Record<string, string> = {}) =>
    `/admin/models/${name}?${new URLSearchParams({ model: id, ...more })}`;
  return (
    <Card
      title="State and prices"
      lead={
        <>
          <code className="break-all font-mono">{id}</code> · {kind} · {ownedBy}
          {enabled ? null : <span className="text-bad"> · disabled</span>}
        </>
      }
      action={
        <a href={step(enabled ? "disable" : "enable")} className={buttonClass("danger")}>
          {enabled ? "Disable" : "Enable"}
          <span className="sr-only"> {id}</span>
        </a>
      }
    >
      <div className="space-y-3">
        <PriceTable prices={shown} />
        {shown.length < prices.length ? (
          <p className="text-muted">The {pastPricesShown} newest of the past prices. The audit log has all of them.</p>
        ) : null}
        <div className="flex flex-wrap gap-3">
          {tiersOf(model).map(({ providerId, minInputTokens }) => (
            <a
              key={`${providerId} ${minInputTokens}`}
              href={step("price", { provider: providerId, tier: String(minInputTokens) })}
              className={buttonClass("secondary")}
            >
              Add a price ({providerId}
              {minInputTokens > 0 ? `, from ${minInputTokens.toLocaleString("en")} tokens` : ""})
              <span className="sr-only"> of {id}</span>
            </a>
          ))}
          {providers.length === 0 ? <p className="text-muted">No provider leads to this model.</p> : null}
        </div>
      </div>
    </Card>
  );
}

const pastPricesShown = 50;

/** The prices of now and of later, and the newest of the past, in the order that they have. */
export function shownPrices(prices: readonly ModelPrice[], now = Date.now()): ModelPrice[] {
  const endOf = ({ until }: ModelPrice) => (until === null ? Number.POSITIVE_INFINITY : Date.parse(until));
  const past = prices.filter((price) => endOf(price) <= now);
  const left = new Set(past.toSorted((a, b) => endOf(b) - endOf(a)).slice(pastPricesShown));
  return prices.filter((price) => !left.has(price));
}

/** Every tier that a price can be added to: those that have one, and the first of each provider. */
function tiersOf({ providers, prices }: CatalogueModel): { providerId: string; minInputTokens: number }[] {
  return providers.flatMap((providerId) => {
    const known = prices.filter((price) => price.providerId === providerId).map((price) => price.minInputTokens);
    return [...new Set([0, ...known])].map((minInputTokens) => ({ providerId, minInputTokens }));
  });
}

function PriceTable({ prices }: { prices: readonly ModelPrice[] }) {
  if (prices.length === 0) return <p className="text-muted">No price yet: calls of this model are refused.</p>;
  return (
    <table className="w-full text-left">
      <caption className="pb-2 text-left text-muted text-small">
        USD for a million tokens, fees for each request
      </caption>
      <thead className="text-muted text-small">
        <tr>
          <th className={head}>Holds</th>
          <th className={`${head} ${wide}`}>Provider</th>
          <th className={`${head} ${number}`}>Input</th>
          <th className={`${head} ${wide} ${number}`}>Cached</th>
          <th className={`${head} ${number}`}>Output</th>
          <th className={`${head} ${wide} ${number}`}>Audio in</th>
          <th className={`${head} ${wide} ${number}`}>Audio out</th>
        </tr>
      </thead>
      <tbody>
        {prices.map((price) => (
          <tr key={price.id} className={price.current ? "font-medium" : "text-muted"}>
            <td className={cell}>
              {holds(price)}
              <div className="sm:hidden">
                <PriceScope price={price} />
              </div>
            </td>
            <td className={`${cell} ${wide}`}>
              <PriceScope price={price} />
            </td>
            <td className={`${cell} ${number}`}>
              {usd(price.inputUsd)}
              {price.cachedInputUsd ? <p className="text-small sm:hidden">{usd(price.cachedInputUsd)} cached</p> : null}
              {price.imageInputUsd ? <p className="text-small">{usd(price.imageInputUsd)} images</p> : null}
              {price.requestFeeUsd ? <p className="text-small">{usd(price.requestFeeUsd)} a request</p> : null}
            </td>
            <td className={`${cell} ${wide} ${number}`}>
              {usd(price.cachedInputUsd)}
              {price.cacheWriteUsd ? <p className="text-small">{usd(price.cacheWriteUsd)} write</p> : null}
              {price.cacheWrite1hUsd ? <p className="text-small">{usd(price.cacheWrite1hUsd)} write, 1 h</p> : null}
            </td>
            <td className={`${cell} ${number}`}>{usd(price.outputUsd)}</td>
            <td className={`${cell} ${wide} ${number}`}>{usd(price.audioInputUsd)}</td>
            <td className={`${cell} ${wide} ${number}`}>{usd(price.audioOutputUsd)}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

/** Which calls a price is for. */
function PriceScope({ price: { providerId, serviceTier, minInputTokens } }: { price: ModelPrice }) {
  return (
    <>
      {providerId}
      {serviceTier === "default" ? null : <p className="text-small">{serviceTier} tier</p>}
      {minInputTokens > 0 ? <p className="text-small">from {minInputTokens.toLocaleString("en")} tokens</p> : null}
    </>
  );
}

function holds({ from, until, current }: ModelPrice): string {
  const day = (at: string) => `${at.slice(0, 16).replace("T", " ")} UTC`;
  const since = from ? `since ${day(from)}` : "always";
  if (current) return until ? `${since}, until ${day(until)}` : since;
  if (until && Date.parse(until) <= Date.now()) return `until ${day(until)}`;
  return from ? `from ${day(from)}` : "never";
}

/** What the first provider charges that has a price, which is the one usually asked. */
function priceOf({ providers, prices }: CatalogueModel): ModelPrice | undefined {
  const current = prices.filter((price) => price.current);
  const first = providers.find((id) => current.some(({ providerId }) => providerId === id));
  return current.find(({ providerId }) => providerId === first);
}

/** The catalogue: which models there are, whether they are open, and what they cost now. */
export function ModelTable({ models, empty }: { models: readonly CatalogueModel[]; empty: string }) {
  return (
    <DataTable
      caption="Models"
      rows={models}
      rowKey={({ id }) => id}
      empty={empty}
      columns={[
        {
          label: "Model",
          cell: ({ id, displayName }) => (
            <>
              <a href={`/admin/models?${new URLSearchParams({ model: id })}`} className="link font-medium">
                {displayName}
              </a>
              <span className="block break-all font-mono text-muted text-small">{id}</span>
            </>
          ),
        },
        { label: "Kind", small: "hidden", cell: ({ kind }) => kind },
        {
          label: "State",
          small: "aside",
          cell: (model) => {
            const fault = model.enabled ? modelFault(model) : "Disabled";
            return fault ? <span className="text-bad">{fault}</span> : "Enabled";
          },
        },
        { label: "Input now", numeric: true, small: "hidden", cell: (model) => usd(priceOf(model)?.inputUsd ?? null) },
        {
          label: "Output now",
          numeric: true,
          small: "hidden",
          cell: (model) => usd(priceOf(model)?.outputUsd ?? null),
        },
      ]}
    />
  );
}
