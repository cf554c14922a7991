import { ChangeField } from "../change-fields.tsx";
import type { FailedChange } from "../failed-change.ts";
import { priceHints } from "../price-fields.tsx";
import { type PriceClass, priceClasses, priceLabels } from "../prices/price-source.ts";
import { listChosenProviders, priceField, requiredPrices } from "./fields.ts";
import { FormButton } from "./route-fields.tsx";

/** Renders the prices of each provider that a route names, and the result of looking them up. */
export function PricesFields({
  shown,
  notes,
  lines,
  sources,
}: {
  shown: FailedChange;
  /** What the price files state, by field. */
  notes: Readonly<Record<string, string>>;
  /** The result of the look-up, one sentence a line. */
  lines: readonly string[];
  /** The hosts of the configured price files. */
  sources: readonly string[];
}) {
  const providers = listChosenProviders(shown.typed);
  return (
    <section id="prices" aria-labelledby="prices-title" className="scroll-mt-6 space-y-4">
      <h2 id="prices-title" className="font-semibold text-large">
        Prices
      </h2>
      <p className="text-muted">
        In USD per million tokens, for all routes of a provider, from when you save. Prices for long inputs, service
        tiers and later times are on the model’s page.
      </p>
      {lines.length > 0 ? (
        <div role="status" className="space-y-1 rounded-card bg-accent-soft p-3">
          {lines.map((line) => (
            <p key={line} className="wrap-anywhere">
              {line}
            </p>
          ))}
        </div>
      ) : null}
      {providers.length === 0 ? <p>Choose the provider of a route first.</p> : null}
      {providers.map((id) => (
        <ProviderPrices key={id} id={id} shown={shown} notes={notes} />
      ))}
      {sources.length > 0 ? (
        <FormButton intent="look-up" at="prices">
          Look up prices
        </FormButton>
      ) : (
        <p className="text-muted text-small">To look up prices here, set PRICE_SOURCE_URLS on the web server.</p>
      )}
    </section>
  );
}

function ProviderPrices({
  id,
  shown,
  notes,
}: {
  id: string;
  shown: FailedChange;
  notes: Readonly<Record<string, string>>;
}) {
  const { typed, fields } = shown;
  const isOpened = priceField(id, "opened") in typed;
  const usual: readonly PriceClass[] = requiredPrices;
  const isShown = (name: PriceClass) => {
    const field = priceField(id, name);
    return isOpened || usual.includes(name) || (typed[field] ?? "") !== "" || field in fields || field in notes;
  };
  return (
    <fieldset className="space-y-4 rounded-card border border-line p-4 pt-0">
      <legend className="px-1 font-medium">Prices of {id}</legend>
      <input type="hidden" name={priceField(id, "seen")} value={typed[priceField(id, "seen")] ?? "0"} />
      {isOpened ? <input type="hidden" name={priceField(id, "opened")} value="1" /> : null}
      <div className="grid items-end gap-4 sm:grid-cols-2">
        {[...usual, ...priceClasses.filter((name) => !usual.includes(name))].filter(isShown).map((name) => (
          <ChangeField
            key={name}
            name={priceField(id, name)}
            label={priceLabels[name]}
            aria-label={`${priceLabels[name]} price of ${id}`}
            hint={[usual.includes(name) ? "" : priceHints[name], notes[priceField(id, name)]].filter(Boolean).join(" ")}
            inputMode="decimal"
            failed={shown}
          />
        ))}
      </div>
      {isOpened ? null : (
        <FormButton intent={`open-price-${id}`} at="prices" label={`More prices of ${id}`}>
          More prices
        </FormButton>
      )}
    </fieldset>
  );
}
