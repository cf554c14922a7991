import { CheckBox } from "../../../ui/field.tsx";
import { formatMoney } from "../../../ui/format-amount.ts";
import type { ServiceTotal } from "../files/import-document.ts";
import { maxListedServices, serviceField } from "./import-choices.ts";

/** The number of services listed before the rest is collapsed. */
const maxVisibleServices = 12;

/**
 * Lets a person choose services of a bill, each with its sum. A bill with one service, or with too many to list, offers
 * no choice.
 */
export function ServiceChoice({
  services,
  chosen,
  error,
}: {
  services: readonly ServiceTotal[];
  /** Indexes into `services`, or null for all. */
  chosen: readonly number[] | null;
  error: string | undefined;
}) {
  if (services.length === 0) {
    return (
      <p className="text-muted text-small">{`All services are imported, because there are more than ${maxListedServices}.`}</p>
    );
  }
  const boxes = services.map(({ service, amounts }, position) => (
    <CheckBox
      key={service ?? ""}
      id={serviceField(position)}
      name={serviceField(position)}
      value="1"
      label={service ?? "No service named"}
      hint={amounts.map(formatMoney).join(", ")}
      defaultChecked={chosen === null || chosen.includes(position)}
    />
  ));
  if (services.length < 2) return <div hidden>{boxes}</div>;
  return (
    <fieldset id="services" tabIndex={-1} className="space-y-3" aria-describedby={error ? "services-error" : undefined}>
      <legend className="font-medium">Services to import</legend>
      <p className="text-muted text-small">
        Deselect services the gateway doesn’t use, such as storage on a cloud bill.
      </p>
      {error ? (
        <p id="services-error" className="text-bad text-small">
          {error}
        </p>
      ) : null}
      <div className={grid}>{boxes.slice(0, maxVisibleServices)}</div>
      {boxes.length > maxVisibleServices ? (
        <details>
          <summary className="cursor-pointer font-medium">{boxes.length - maxVisibleServices} more services</summary>
          <div className={`${grid} mt-3`}>{boxes.slice(maxVisibleServices)}</div>
        </details>
      ) : null}
    </fieldset>
  );
}

const grid = "grid gap-x-6 gap-y-3 sm:grid-cols-2 xl:grid-cols-3";
