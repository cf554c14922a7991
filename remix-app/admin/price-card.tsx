import { formatDateTime } from "../http/date-text.ts";
import { Button, ButtonLink } from "../ui/button.tsx";
import { Card } from "../ui/card.tsx";
import { Field, Select } from "../ui/field.tsx";
import { formatPriceUsd } from "./labels.ts";
import { stepPath } from "./model-scope.ts";
import type { CatalogueModel, ModelPrice } from "./models.ts";

const cellClasses = "border-line border-t py-2 pr-4 align-top last:pr-0";
const head = "pr-4 pb-2 font-medium last:pr-0";
const wide = "hidden sm:table-cell";
const numberClasses = "text-right tabular-nums";

/** Lists a model's prices, future ones first. */
export function PriceCard({ model }: { model: CatalogueModel }) {
  const { id, providers, prices } = model;
  const shown = visiblePrices(prices);
  return (
    <Card
      title="Prices"
      lead="Prices can’t be edited. Add a new price instead. You can cancel it up to a minute before it takes effect."
    >
      <div className="space-y-4">
        {prices.length === 0 && providers.length === 0 ? (
          <p className="text-muted">No prices, so callers get 404. Edit the model to add a route with its prices.</p>
        ) : (
          <PriceTable id={id} prices={shown} />
        )}
        {shown.length < prices.length ? (
          <p className="text-muted">Shows the {maxPastPrices} newest past prices. The audit log has all of them.</p>
        ) : null}
        {prices.length > 0 && providers.length === 0 ? (
          <p className="text-muted">Edit the model to add a route first: a price belongs to a route’s provider.</p>
        ) : null}
        <div className="flex flex-wrap gap-3 empty:hidden">
          {tiersOf(model).map(({ providerId, minInputTokens }) => (
            <ButtonLink
              key={`${providerId} ${minInputTokens}`}
              href={stepPath("price", { model: id, provider: providerId, tier: String(minInputTokens) })}
            >
              Add price ({providerId}
              {minInputTokens > 0 ? `, from ${minInputTokens.toLocaleString("en")} tokens` : ""})
              <span className="sr-only"> of {id}</span>
            </ButtonLink>
          ))}
        </div>
        {providers.length > 0 ? (
          <p>
            Or choose prices from public price files under{" "}
            <a className="link" href="/admin/prices">
              Price proposals
            </a>
            .
          </p>
        ) : null}
        {providers.length > 0 ? (
          <form action="/admin/models/price" className="flex flex-wrap items-end gap-3">
            <p className="w-full">
              If the provider charges more for long inputs, add a price for requests with at least this many input
              tokens.
            </p>
            <input type="hidden" name="model" value={id} />
            <Select name="provider" label="Provider">
              {providers.map((provider) => (
                <option key={provider}>{provider}</option>
              ))}
            </Select>
            <Field name="tier" label="Minimum input tokens" inputMode="numeric" pattern="\d{1,10}" required />
            <Button variant="secondary">Add long-input price</Button>
          </form>
        ) : null}
      </div>
    </Card>
  );
}

const maxPastPrices = 50;

/** Returns the current and future prices and the newest past ones, in the given order. */
export function visiblePrices(prices: readonly ModelPrice[], now = Date.now()): ModelPrice[] {
  const endOf = ({ until }: ModelPrice) => (until === null ? Number.POSITIVE_INFINITY : Date.parse(until));
  const past = prices.filter((price) => endOf(price) <= now);
  const older = new Set(past.toSorted((a, b) => endOf(b) - endOf(a)).slice(maxPastPrices));
  return prices.filter((price) => !older.has(price));
}

/** Returns every provider's tiers: the tier for all inputs, and each other tier that already has a price. */
function tiersOf({ providers, prices }: CatalogueModel): { providerId: string; minInputTokens: number }[] {
  return providers.flatMap((providerId) => {
    const thresholds = prices.filter((price) => price.providerId === providerId).map((price) => price.minInputTokens);
    return [...new Set([0, ...thresholds])].map((minInputTokens) => ({ providerId, minInputTokens }));
  });
}

function PriceTable({ id, prices }: { id: string; prices: readonly ModelPrice[] }) {
  if (prices.length === 0)
    return (
      <p className="text-muted">No prices, so callers get 404. Add a price for the provider of an enabled route.</p>
    );
  return (
    <table className="w-full text-left">
      <caption className="pb-2 text-left text-muted text-small">USD per million tokens; fees per request</caption>
      <thead className="text-muted text-small">
        <tr>
          <th className={head}>Valid</th>
          <th className={`${head} ${wide}`}>Provider</th>
          <th className={`${head} ${numberClasses}`}>Input</th>
          <th className={`${head} ${wide} ${numberClasses}`}>Cached</th>
          <th className={`${head} ${numberClasses}`}>Output</th>
          <th className={`${head} ${wide} ${numberClasses}`}>Audio in</th>
          <th className={`${head} ${wide} ${numberClasses}`}>Audio out</th>
        </tr>
      </thead>
      <tbody>
        {prices.map((price) => (
          <tr key={price.id} className={price.current ? "font-medium" : "text-muted"}>
            <td className={cellClasses}>
              {formatValidity(price)}
              {isFuture(price) ? (
                <p>
                  <a href={stepPath("cancel-price", { model: id, price: String(price.id) })} className="link">
                    Cancel<span className="sr-only"> the price {formatValidity(price)}</span>
                  </a>
                </p>
              ) : null}
              <div className="sm:hidden">
                <PriceScope price={price} />
              </div>
            </td>
            <td className={`${cellClasses} ${wide}`}>
              <PriceScope price={price} />
            </td>
            <td className={`${cellClasses} ${numberClasses}`}>
              {formatPriceUsd(price.inputUsd)}
              {price.cachedInputUsd ? (
                <p className="text-small sm:hidden">{formatPriceUsd(price.cachedInputUsd)} cached</p>
              ) : null}
              {price.imageInputUsd ? <p className="text-small">{formatPriceUsd(price.imageInputUsd)} images</p> : null}
              {price.requestFeeUsd ? (
                <p className="text-small">{formatPriceUsd(price.requestFeeUsd)} per request</p>
              ) : null}
            </td>
            <td className={`${cellClasses} ${wide} ${numberClasses}`}>
              {formatPriceUsd(price.cachedInputUsd)}
              {price.cacheWriteUsd ? <p className="text-small">{formatPriceUsd(price.cacheWriteUsd)} write</p> : null}
              {price.cacheWrite1hUsd ? (
                <p className="text-small">{formatPriceUsd(price.cacheWrite1hUsd)} write, 1 h</p>
              ) : null}
            </td>
            <td className={`${cellClasses} ${numberClasses}`}>{formatPriceUsd(price.outputUsd)}</td>
            <td className={`${cellClasses} ${wide} ${numberClasses}`}>{formatPriceUsd(price.audioInputUsd)}</td>
            <td className={`${cellClasses} ${wide} ${numberClasses}`}>{formatPriceUsd(price.audioOutputUsd)}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

/** Says which calls a price applies to. */
function PriceScope({ price: { providerId, serviceTier, minInputTokens } }: { price: ModelPrice }) {
  return (
    <>
      {providerId}
      {serviceTier === "default" ? null : <p className="text-small">{serviceTier} tier</p>}
      {minInputTokens > 0 ? <p className="text-small">from {minInputTokens.toLocaleString("en")} tokens</p> : null}
    </>
  );
}

function isFuture({ from, current }: ModelPrice): boolean {
  return !current && from !== null && Date.parse(from) > Date.now();
}

function formatValidity({ from, until, current }: ModelPrice): string {
  const since = from ? `since ${formatDateTime(from)}` : "always";
  if (current) return until ? `${since}, until ${formatDateTime(until)}` : since;
  if (until && Date.parse(until) <= Date.now()) return `until ${formatDateTime(until)}`;
  return from ? `from ${formatDateTime(from)}${until ? `, until ${formatDateTime(until)}` : ""}` : "never";
}
