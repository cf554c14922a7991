import { AccountForm } from "../../ui/account-form.tsx";
import { Button, ButtonLink } from "../../ui/button.tsx";
import { ChangeErrors, ChangeField, ReasonField } from "../change-fields.tsx";
import type { FailedChange } from "../failed-change.ts";
import { formatPriceUsd } from "../labels.ts";
import { type PriceClass, priceClasses, priceLabels } from "./price-source.ts";
import { compareWithSources, currentUsd, fallbackText, type ProposedPrice, stripTrailingZeros } from "./proposal.ts";
import { getPriceFieldName, getSourceFieldName, type ReviewedPrices } from "./review.ts";

const cell = "border-line border-t py-2 pr-1 align-top last:pr-0 sm:pr-3";
const numberClasses = "text-right tabular-nums";
const choice = "inline-flex flex-wrap items-center justify-end gap-1.5";

/** Renders a form to choose prices, with a start time and a reason. */
export function ReviewForm({
  shown,
  draftId,
  failed,
}: {
  shown: ReviewedPrices;
  /** Identifies what the server keeps of `shown`. */
  draftId: string;
  failed: FailedChange | undefined;
}) {
  return (
    <AccountForm noValidate className="space-y-6">
      <ChangeErrors failed={failed} />
      <input type="hidden" name="draft" value={draftId} />
      {shown.prices.map((price, row) => (
        <ProposedPriceTable
          key={`${price.model} ${price.providerId} ${price.serviceTier} ${price.minInputTokens}`}
          price={price}
          row={row}
          sources={shown.sources}
          typed={failed?.typed ?? {}}
        />
      ))}
      <div className="max-w-120 space-y-4">
        <p>The chosen prices are saved together, or not at all. Other prices don’t change.</p>
        <ChangeField
          name="from"
          type="datetime-local"
          label="Valid from (UTC)"
          hint="Leave empty to start when you confirm. Requests that start at or after this time are charged at the chosen prices. Earlier requests keep their prices."
          failed={failed}
        />
        <ReasonField defaultValue={failed?.typed.reason} error={failed?.fields.reason?.[0]} />
        <div className="flex flex-wrap gap-3">
          <Button>Apply chosen prices</Button>
          <ButtonLink href="/admin/prices">Cancel</ButtonLink>
        </div>
      </div>
    </AccountForm>
  );
}

type TableProps = {
  price: ProposedPrice;
  row: number;
  sources: ReviewedPrices["sources"];
  typed: Record<string, string>;
};

function ProposedPriceTable({ price, row, sources, typed }: TableProps) {
  const stated = priceClasses.flatMap((name) => {
    const comparison = compareWithSources(price, name);
    return comparison || price.current?.[name] ? [{ name, comparison }] : [];
  });
  const title = titleOf(price);
  return (
    <section aria-label={title}>
      <table className="w-full table-fixed text-left">
        <caption className="pb-3 text-left">
          <a href={`/admin/models?${new URLSearchParams({ model: price.model })}`} className="link font-medium">
            {price.displayName}
          </a>
          <span className="wrap-anywhere block text-muted text-small">{title}</span>
          {price.scheduled ? (
            <span className="block text-small text-warn">
              This price can’t be changed here, because a later one is already scheduled. Use the model’s page.
            </span>
          ) : (
            <ApplyChoice row={row} title={title} price={price} sources={sources} typed={typed} />
          )}
        </caption>
        <thead className="text-muted text-small">
          <tr>
            <th scope="col" className="w-1/4 pr-1 pb-2 font-medium sm:pr-3">
              Class
            </th>
            {["Now", ...sources].map((name) => (
              <th
                key={name}
                scope="col"
                className={`whitespace-nowrap pr-1 pb-2 font-medium last:pr-0 sm:pr-3 ${numberClasses}`}
              >
                {name}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {stated.map(({ name, comparison }) => (
            <tr key={name}>
              <th scope="row" className={`${cell} font-normal`}>
                {priceLabels[name]}
                <span className={`block text-small ${comparison === "same" ? "text-good" : "text-muted"}`}>
                  {comparison ?? "not in the files"}
                </span>
              </th>
              <td className={`${cell} ${numberClasses}`}>
                {formatAmount(currentUsd(price.current, name))}
                <span className="block text-muted text-small">{fallbackText(price.current, name)}</span>
              </td>
              {sources.map((source, index) => (
                <td key={source} className={`${cell} ${numberClasses}`}>
                  <OfferCell
                    offer={price.offered[index]?.[name]}
                    field={price.scheduled ? undefined : getPriceFieldName(row, { name, source: index })}
                    label={`Apply ${priceLabels[name]} from ${source} for ${title}`}
                    typed={typed}
                  />
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}

/** Lets the admin choose which prices of a row to apply: only the ticked ones, or all from one source. */
function ApplyChoice({ price, row, sources, typed, title }: TableProps & { title: string }) {
  const field = getSourceFieldName(row);
  const chosen = typed[field] ?? "";
  const options = [
    { value: "", text: "Only ticked prices" },
    ...sources.flatMap((source, index) =>
      hasAmount(price.offered[index]) ? [{ value: String(index), text: `All from ${source}` }] : [],
    ),
  ];
  return (
    <fieldset className="mt-2 flex flex-wrap items-center gap-x-4 gap-y-1">
      <legend className="float-left mr-4 font-medium">
        Apply<span className="sr-only"> to {title}</span>
      </legend>
      {options.map(({ value, text }) => (
        <label key={value} className="inline-flex cursor-pointer items-center gap-1.5">
          <input
            type="radio"
            name={field}
            value={value}
            defaultChecked={chosen === value}
            className="size-4 shrink-0 accent-accent"
          />
          {text}
        </label>
      ))}
    </fieldset>
  );
}

function OfferCell({
  offer,
  field,
  label,
  typed,
}: {
  offer: ProposedPrice["offered"][number][PriceClass];
  field: string | undefined;
  label: string;
  typed: Record<string, string>;
}) {
  if (!offer) return "–";
  return (
    <>
      {offer.usd === null ? null : (
        <span className={choice}>
          {formatAmount(offer.usd)}
          {field ? (
            <input
              type="checkbox"
              name={field}
              aria-label={label}
              defaultChecked={field in typed}
              className="size-4 shrink-0 cursor-pointer accent-accent"
            />
          ) : null}
        </span>
      )}
      {offer.note ? <span className="wrap-anywhere block text-muted text-small">{offer.note}</span> : null}
    </>
  );
}

function hasAmount(offers: ProposedPrice["offered"][number] = {}): boolean {
  return Object.values(offers).some((offer) => offer?.usd != null);
}

/** Shows an amount with at least two decimals. */
function formatAmount(amount: string | null): string {
  const [whole = "", fraction = ""] = stripTrailingZeros(amount ?? "").split(".");
  return formatPriceUsd(amount === null ? null : `${whole}.${fraction.padEnd(2, "0")}`);
}

function titleOf({ model, providerId, serviceTier, minInputTokens }: ProposedPrice): string {
  const tier = serviceTier === "default" ? "" : `, ${serviceTier} tier`;
  const size = minInputTokens === 0 ? "" : `, from ${minInputTokens.toLocaleString("en")} tokens`;
  return `${model} at ${providerId}${tier}${size}`;
}
