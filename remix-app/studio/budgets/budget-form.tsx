import { AccountForm } from "../../ui/account-form.tsx";
import { Button, ButtonLink } from "../../ui/button.tsx";
import { ErrorSummary } from "../../ui/error-summary.tsx";
import { CheckBox, Field, Select } from "../../ui/field.tsx";
import type { BudgetSubject } from "./budget-change.ts";
import type { Budget, BudgetPeriod } from "./budget-schema.ts";
import { periodWords } from "./budget-words.ts";
import { concurrentScopes, type OpenBudget } from "./open-budget.ts";
import { commonTimeZones } from "./time-zone.ts";

const defaultThresholds = [50, 80, 100];

/** What a form sets: a listed budget, a new budget of a listed subject, or of a new label (without a name). */
interface BudgetFormProps {
  of: BudgetSubject | null;
  name: string | null;
  /** Whether calls can be refused because of the budget. */
  enforced: boolean;
  /** The listed budget; null for a new one. */
  budget: Budget | null;
  period: BudgetPeriod;
  /** The periods to choose from; empty if the period is fixed. */
  choices?: readonly BudgetPeriod[];
  /** The time zone that a new budget proposes. */
  timeZone?: string;
  /** Where to limit concurrent calls instead; null if that isn't possible. */
  concurrentHref?: string | null;
  open: OpenBudget;
  /** The list page's query string. */
  page: string;
}

/** The id of the open form, to which links scroll. At most one is open. */
export const budgetFormId = "budget-form";

/** Renders the form that adds, changes or removes one budget. */
export function BudgetForm(props: BudgetFormProps) {
  const { of, budget, period, open, page, concurrentHref = null } = props;
  const { errors } = open;
  const current = budget ?? open.current;
  const isSet = current !== null && (current.limitUsd !== null || (current.maxCalls ?? null) !== null);
  return (
    <AccountForm action={page} noValidate id={budgetFormId} className="max-w-108 scroll-mt-6 space-y-4">
      <ErrorSummary id="budget-error" fields={errors} />
      <SubjectFields of={of} open={open} />
      <input type="hidden" name="readUsd" value={current?.limitUsd ?? ""} />
      {period === "concurrent" ? <ConcurrentFields {...props} /> : <AmountFields {...props} />}
      <div className="flex flex-wrap gap-3">
        <Button name="intent" value="save">
          {period === "concurrent" ? "Save limit" : "Save budget"}
        </Button>
        {isSet ? (
          <Button name="intent" value="remove" variant="danger">
            {period === "concurrent" ? "Remove limit" : "Remove budget"}
          </Button>
        ) : null}
        <ButtonLink href={page}>Cancel</ButtonLink>
      </div>
      {concurrentHref ? (
        <p className="text-muted text-small">
          To limit how many calls run at the same time,{" "}
          <a className="link" href={concurrentHref}>
            limit concurrent calls
          </a>
          .
        </p>
      ) : null}
    </AccountForm>
  );
}

function SubjectFields({ of, open }: Pick<BudgetFormProps, "of" | "open">) {
  if (of === null) {
    return (
      <>
        <input type="hidden" name="scope" value="label" />
        <Field
          name="label"
          label="Entity label"
          hint="Up to 128 letters, digits, dots, underscores, colons and hyphens, such as customer:7."
          autoComplete="off"
          defaultValue={open.typed.label ?? ""}
          error={open.errors.label}
        />
      </>
    );
  }
  return (
    <>
      <input type="hidden" name="scope" value={of.scope} />
      {of.scope === "label" ? (
        <input type="hidden" name="label" value={of.label} />
      ) : (
        <input type="hidden" name="subjectId" value={of.subjectId} />
      )}
    </>
  );
}

function ConcurrentFields({ budget, name, open }: BudgetFormProps) {
  const maxCalls = (budget ?? open.current)?.maxCalls ?? "";
  return (
    <>
      <input type="hidden" name="period" value="concurrent" />
      <input type="hidden" name="readMaxCalls" value={maxCalls} />
      <Field
        name="maxCalls"
        label={`Concurrent calls of ${name ?? "this"}`}
        hint="The number of calls that may be in progress at the same time. Further calls are refused with 429. Enter 0 to refuse every call."
        inputMode="numeric"
        autoComplete="off"
        defaultValue={open.typed.maxCalls ?? maxCalls}
        error={open.errors.maxCalls}
      />
    </>
  );
}

function AmountFields(props: BudgetFormProps) {
  const { of, name, enforced, budget, period, choices = [], open } = props;
  const { typed, errors } = open;
  const subject = of === null ? "" : ` of ${name ?? "this"}`;
  return (
    <>
      <Field
        name="limitUsd"
        label={`${choices.length > 0 ? "Budget" : periodWords[period].budget}${subject}, in dollars`}
        hint={of === null ? undefined : amountHint(enforced)}
        inputMode="decimal"
        autoComplete="off"
        defaultValue={typed.limitUsd ?? budget?.limitUsd ?? ""}
        error={errors.limitUsd}
      />
      {choices.length > 0 ? (
        <Select name="period" label="Period" defaultValue={period}>
          {choices.map((choice) => (
            <option key={choice} value={choice}>
              {periodWords[choice].choice}
            </option>
          ))}
        </Select>
      ) : (
        <input type="hidden" name="period" value={period} />
      )}
      <MoreSettings {...props} />
    </>
  );
}

function amountHint(enforced: boolean): string {
  return enforced
    ? "Applies from the next request. Enter 0 to refuse every request."
    : "We’ll warn by email. No API key has this label, so no request is refused.";
}

/** Renders the time zone, the warnings and what calls reserve, folded unless they differ from the defaults. */
function MoreSettings({ budget, period, choices = [], timeZone: proposed = "UTC", open }: BudgetFormProps) {
  const { typed, errors } = open;
  const current = budget ?? open.current;
  const timeZone = typed.timeZone ?? current?.timeZone ?? proposed;
  const thresholds = typed.thresholds ?? (current?.thresholds ?? defaultThresholds).join(", ");
  const hasZone = period !== "total" || choices.length > 0;
  const reservesExpected = typed.reservesExpected ?? current?.reservesExpected ?? false;
  const isOpen =
    Boolean(errors.timeZone ?? errors.thresholds) ||
    timeZone !== "UTC" ||
    thresholds !== defaultThresholds.join(", ") ||
    reservesExpected;
  return (
    <details open={isOpen} className="rounded-card border border-line">
      <summary className="cursor-pointer rounded-card px-3 py-2.5 font-medium hover:bg-sunken">
        {hasZone ? "Time zone, warnings and reservations" : "Warnings and reservations"}
      </summary>
      <div className="space-y-5 border-line border-t p-3">
        {hasZone ? (
          <>
            <Field
              name="timeZone"
              label="Time zone"
              hint="Days, weeks and months begin at 00:00 in this IANA time zone."
              list="time-zones"
              autoComplete="off"
              autoCapitalize="none"
              spellCheck={false}
              defaultValue={timeZone}
              error={errors.timeZone}
            />
            <datalist id="time-zones">
              {commonTimeZones.map((zone) => (
                <option key={zone} value={zone} />
              ))}
            </datalist>
          </>
        ) : null}
        <Field
          name="thresholds"
          label="Warn at, in percent"
          hint="Up to five percentages. We email a warning when spending reaches one. Leave empty for no warnings."
          inputMode="text"
          autoComplete="off"
          defaultValue={thresholds}
          error={errors.thresholds}
        />
        <CheckBox
          name="reservesExpected"
          label="Reserve less for streamed requests"
          hint="Holds the cost of the usual output instead of the maximum cost, once 20 requests of a kind show what is usual. If the budget runs out, the answer is stopped and what was delivered is charged."
          defaultChecked={reservesExpected}
        />
        <input type="hidden" name="readReservesExpected" value={String(current?.reservesExpected ?? false)} />
        {current?.timeZone ? <input type="hidden" name="readTimeZone" value={current.timeZone} /> : null}
        {current?.thresholds ? (
          <input type="hidden" name="readThresholds" value={current.thresholds.join(",")} />
        ) : null}
      </div>
    </details>
  );
}

/** Returns whether concurrent calls of a subject can be limited. */
export function canLimitCalls({ scope }: Pick<BudgetSubject, "scope">): boolean {
  return concurrentScopes.includes(scope);
}
