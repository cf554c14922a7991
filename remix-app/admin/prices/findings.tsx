import { ButtonLink } from "../../ui/button.tsx";
import { Card } from "../../ui/card.tsx";
import { formatQuantity } from "../labels.ts";
import { setupPath } from "../model-scope.ts";
import { limitsQuery, limitsText } from "./limits.ts";
import type { Proposal } from "./proposal.ts";

type Found = Omit<Proposal, "differences" | "same"> & { differences: number; same: number };

/** Summarizes a price comparison. */
export function Findings({ findings, shown }: { findings: Found; shown: number }) {
  const { sources, differences, same, missing, unpriced, limits } = findings;
  return (
    <Card title={`Compared with ${sources.join(" and ")}`}>
      <div className="space-y-4">
        <ul className="list-disc space-y-1 pl-5">
          <li>
            {formatQuantity(differences, "price")} to review: a source states a different amount, or there is no price
            yet.
          </li>
          <li>{formatQuantity(same, "price")} without a difference.</li>
          {differences > shown ? (
            <li>The first {shown} are below. Apply what you choose, then compare again for the others.</li>
          ) : null}
        </ul>
        {missing.length > 0 ? (
          <details>
            <summary className="cursor-pointer font-medium">
              {formatQuantity(missing.length, "route")} not in the files
            </summary>
            <p className="text-muted text-small">
              The functions’ settings name each provider’s company: its kind, or AI_PROVIDER_&lt;ID&gt;_BILLING_NAME.
            </p>
            <ul className="mt-2 list-disc space-y-1 pl-5">
              {missing.map(({ model, providerId, providerModel, name }) => (
                <li key={`${model} ${providerId}`} className="wrap-anywhere">
                  {model} at {providerId}: looked for {name}/{providerModel}
                </li>
              ))}
            </ul>
          </details>
        ) : null}
        {unpriced.length > 0 ? (
          <details>
            <summary className="cursor-pointer font-medium">
              {formatQuantity(unpriced.length, "route")} with charges that prices here don’t support
            </summary>
            <ul className="mt-2 list-disc space-y-1 pl-5">
              {unpriced.map(({ model, providerId, source, fields }) => (
                <li key={`${model} ${providerId} ${source}`} className="wrap-anywhere">
                  {model} at {providerId}, {source}: {fields.join(", ")}
                </li>
              ))}
            </ul>
          </details>
        ) : null}
        {limits.length > 0 ? (
          <details open>
            <summary className="cursor-pointer font-medium">
              {formatQuantity(limits.length, "model")} whose limits can be completed from the files
            </summary>
            <ul className="mt-2 list-disc space-y-1 pl-5">
              {limits.map((proposed) => (
                <li key={proposed.model} className="wrap-anywhere">
                  {proposed.model}: {limitsText(proposed)}{" "}
                  <a href={setupPath(limitsQuery(proposed))} className="link">
                    Review<span className="sr-only"> the limits of {proposed.model}</span>
                  </a>
                </li>
              ))}
            </ul>
          </details>
        ) : null}
        <ButtonLink href="/admin/prices">Compare other files</ButtonLink>
      </div>
    </Card>
  );
}
