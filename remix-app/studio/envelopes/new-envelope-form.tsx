import { AccountForm } from "../../ui/account-form.tsx";
import { Button, ButtonLink } from "../../ui/button.tsx";
import { Card } from "../../ui/card.tsx";
import { ErrorSummary } from "../../ui/error-summary.tsx";
import { Field, Select } from "../../ui/field.tsx";
import type { KeyChoice } from "./envelopes.ts";

/**
 * Renders the form that sets a task limit before its first request.
 * @param props.typed the submitted values, if they were rejected or are restored after a step-up
 * @param props.path the path of the page with the form
 */
export function NewEnvelopeForm(props: {
  keys: readonly KeyChoice[];
  mayUseStudio: boolean;
  typed: Readonly<Record<string, string>>;
  errors: Readonly<Record<string, string | undefined>>;
  path: string;
}) {
  const { keys, mayUseStudio, typed, errors, path } = props;
  return (
    <Card title="New task limit" lead="Applies from the next request. You’ll confirm that it’s you first.">
      <AccountForm action={`${path}?new=1`} noValidate className="max-w-108 space-y-4">
        <ErrorSummary id="new-limit-error" fields={errors} />
        <Select name="keyId" label="Whose requests" defaultValue={typed.keyId ?? ""} error={errors.keyId}>
          {mayUseStudio ? <option value="">My own requests</option> : null}
          {keys.map(({ id, name }) => (
            <option key={id} value={id}>
              API key: {name}
            </option>
          ))}
        </Select>
        <Field
          name="label"
          label="Label (optional)"
          hint="Only requests with this X-Platform-Entity-Id. Leave empty for all of them."
          autoComplete="off"
          autoCapitalize="none"
          spellCheck={false}
          defaultValue={typed.label ?? ""}
          error={errors.label}
        />
        <Field
          name="limitUsd"
          label="Limit, in dollars"
          inputMode="decimal"
          autoComplete="off"
          defaultValue={typed.limitUsd ?? ""}
          error={errors.limitUsd}
        />
        <Field
          name="calls"
          label="Maximum requests (optional)"
          inputMode="numeric"
          autoComplete="off"
          defaultValue={typed.calls ?? ""}
          error={errors.calls}
        />
        <Field
          name="endsAt"
          type="datetime-local"
          label="Ends (UTC, optional)"
          hint="After 30 days if empty."
          defaultValue={typed.endsAt ?? ""}
          error={errors.endsAt}
        />
        <div className="flex flex-wrap gap-3">
          <Button>Set task limit</Button>
          <ButtonLink href={path}>Cancel</ButtonLink>
        </div>
      </AccountForm>
    </Card>
  );
}
