import { listMissingSettings } from "#shared/provider-setting-names.ts";
import type { ProviderListing } from "#shared/provider-setup.ts";
import { Button } from "../../ui/button.tsx";
import { Select } from "../../ui/field.tsx";
import { ChangeField, ChangeTick } from "../change-fields.tsx";
import type { FailedChange } from "../failed-change.ts";
import { fieldLabels } from "../model-preview.ts";
import { advancedRouteFields, chosenProvider, listRoutes, maxOfferedRoutes, routeField } from "./fields.ts";
import type { TestResult } from "./test-call.ts";

const rareHints = {
  tierMultipliers: "For tiers without their own prices, such as flex 0.5, priority 2.",
  firstByteSeconds: "Leave empty to use the provider’s setting.",
  idleSeconds: "Leave empty to use the provider’s setting.",
  totalSeconds: "Leave empty to use the provider’s setting.",
} as const;

interface RoutesProps {
  shown: FailedChange;
  /** The configured providers, or null if the functions didn't list them. */
  listing: ProviderListing | null;
  /** The results of test calls, in the order of the routes. */
  tests: readonly TestResult[];
}

/** Renders the routes of a model, in the order in which calls try them. */
export function RoutesFields({ shown, listing, tests }: RoutesProps) {
  const routes = listRoutes(shown.typed);
  return (
    <section id="routes" aria-labelledby="routes-title" className="scroll-mt-6 space-y-4">
      <h2 id="routes-title" className="font-semibold text-large">
        Routes
      </h2>
      <p className="text-muted">
        Calls try the enabled routes in this order. <strong className="font-medium">Test</strong> sends “Say ok.” to
        each route. The provider may charge for it; no credits are charged.
      </p>
      {routes.map((route, index) => (
        <RouteFields
          // biome-ignore lint/suspicious/noArrayIndexKey: a route has no other key while it is typed
          key={index}
          number={index + 1}
          route={route}
          shown={shown}
          listing={listing}
          test={tests[index]}
        />
      ))}
      <div className="flex flex-wrap gap-3">
        {routes.length < maxOfferedRoutes ? <FormButton intent="add-route">Add route</FormButton> : null}
        {routes.length > 0 ? <FormButton intent="test">Test</FormButton> : null}
      </div>
    </section>
  );
}

/** Renders a button that shows the form again, with everything that was typed, at its routes or prices. */
export function FormButton({
  intent,
  at = "routes",
  label,
  children,
}: {
  intent: string;
  at?: "routes" | "prices";
  label?: string;
  children: string;
}) {
  return (
    <Button variant="secondary" name="intent" value={intent} formAction={`#${at}`} aria-label={label}>
      {children}
    </Button>
  );
}

function RouteFields({
  number,
  route,
  shown,
  listing,
  test,
}: Omit<RoutesProps, "tests"> & {
  number: number;
  route: Readonly<Record<string, string>>;
  test: TestResult | undefined;
}) {
  const name = (field: string) => routeField(number, field);
  const ofRoute = (label: string) => `${label} of route ${number}`;
  const isOpened = "opened" in route;
  const isShown = (field: string) => isOpened || (route[field] ?? "") !== "" || name(field) in shown.fields;
  return (
    <fieldset className="space-y-4 rounded-card border border-line p-4 pt-0">
      <legend className="px-1 font-medium">Route {number}</legend>
      <div className="grid items-end gap-4 sm:grid-cols-2">
        <ProviderField number={number} route={route} shown={shown} listing={listing} />
        <ChangeField
          name={name("providerModel")}
          label={fieldLabels.providerModel}
          aria-label={ofRoute(fieldLabels.providerModel)}
          autoCapitalize="none"
          spellCheck={false}
          failed={shown}
        />
        {advancedRouteFields.filter(isShown).map((field) => (
          <ChangeField
            key={field}
            name={name(field)}
            label={fieldLabels[field]}
            aria-label={ofRoute(fieldLabels[field])}
            hint={rareHints[field]}
            inputMode={field === "tierMultipliers" ? "text" : "numeric"}
            autoCapitalize="none"
            spellCheck={false}
            failed={shown}
          />
        ))}
      </div>
      {isShown("trustsStatedCost") ? (
        <ChangeTick
          name={name("trustsStatedCost")}
          label={fieldLabels.trustsStatedCost}
          aria-label={ofRoute(fieldLabels.trustsStatedCost)}
          hint="Otherwise the cost is calculated from the prices. The prices always set how much is reserved for a request in progress."
          value={false}
          failed={shown}
        />
      ) : null}
      {isOpened ? <input type="hidden" name={name("opened")} value="1" /> : null}
      {test ? (
        <p role="status" aria-label={`Test of route ${number}`} className={test.answered ? "text-good" : "text-warn"}>
          {test.text}
        </p>
      ) : null}
      <div className="flex flex-wrap items-center gap-3">
        <div className="mr-auto">
          <ChangeTick
            name={name("enabled")}
            label={fieldLabels.enabled}
            aria-label={ofRoute(fieldLabels.enabled)}
            value={false}
            failed={shown}
          />
        </div>
        {number > 1 ? (
          <FormButton intent={`move-route-${number}`} label={`Move up route ${number}`}>
            Move up
          </FormButton>
        ) : null}
        {isOpened ? null : (
          <FormButton intent={`open-route-${number}`} label={`More settings of route ${number}`}>
            More settings
          </FormButton>
        )}
        <FormButton intent={`remove-route-${number}`} label={`Remove route ${number}`}>
          Remove
        </FormButton>
      </div>
    </fieldset>
  );
}

/** Renders the choice of a route's provider: one that the functions are configured for, or another one by its id. */
function ProviderField({
  number,
  route,
  shown,
  listing,
}: Omit<RoutesProps, "tests"> & { number: number; route: Readonly<Record<string, string>> }) {
  const name = routeField(number, "providerId");
  const other = routeField(number, "otherProvider");
  const label = `Provider of route ${number}`;
  const idHint = "The <ID> in AI_PROVIDER_<ID>_KIND, in lower case: openai for AI_PROVIDER_OPENAI_KIND.";
  const text = { label: fieldLabels.providerId, hint: idHint, autoCapitalize: "none", spellCheck: false } as const;
  if (!listing) return <ChangeField {...text} name={name} aria-label={label} failed={shown} />;
  const chosen = chosenProvider(route);
  const isListed = listing.providers.some(({ id }) => id === chosen);
  return (
    <>
      <Select
        name={name}
        label={fieldLabels.providerId}
        aria-label={label}
        hint={chosen === "" ? undefined : describeMissing(listing, chosen)}
        error={shown.fields[name]?.[0]}
        defaultValue={chosen}
      >
        {listing.providers.map(({ id }) => (
          <option key={id}>{id}</option>
        ))}
        {isListed || chosen === "" ? null : <option value={chosen}>{chosen} (not configured)</option>}
        <option value="">Other…</option>
      </Select>
      {chosen === "" ? (
        <ChangeField
          {...text}
          name={other}
          label="Provider’s ID"
          aria-label={`Provider’s ID of route ${number}`}
          failed={shown}
        />
      ) : null}
    </>
  );
}

/** Names the settings that a provider lacks, or returns undefined if it lacks none. */
function describeMissing(listing: ProviderListing, id: string): string | undefined {
  const missing = listMissingSettings(listing, { id, kind: guessKind(listing, id) });
  if (missing.length === 0) return undefined;
  return `Calls skip this route until the functions have ${missing.join(" and ")}.`;
}

/** Returns the kind that a provider's id contains, such as openai in eu_openai; null if it contains none. */
function guessKind({ kinds }: ProviderListing, id: string): string | null {
  return kinds.find(({ name }) => `_${id}_`.includes(`_${name}_`))?.name ?? null;
}
