import { appScopes } from "../satellites/app-rights.ts";
import { ButtonLink } from "../ui/button.tsx";
import { Card } from "../ui/card.tsx";
import { Copyable } from "../ui/code-block.tsx";
import { CheckBox, Field } from "../ui/field.tsx";
import type { FailedChange } from "./change-answer.ts";

/** The fields of an app that its form and its edit have in common. */
export function AppFields({
  app,
  failed,
}: {
  app: { displayName: string; origins: readonly string[]; scopes: readonly string[]; logoutUrl: string | null };
  failed: FailedChange | undefined;
}) {
  return (
    <>
      <DisplayNameField displayName={app.displayName} failed={failed} />
      <Lines
        name="origins"
        label="Origins"
        hint="Where people sign in to the app: full origins, such as https://notes.example.com, one per line."
        lines={app.origins}
        failed={failed}
      />
      <LogoutUrlField logoutUrl={app.logoutUrl} failed={failed} />
      <ScopeBoxes offered={appScopes} scopes={app.scopes} failed={failed} />
    </>
  );
}

type Failed = { failed: FailedChange | undefined };

export function DisplayNameField({ displayName, failed }: Failed & { displayName: string }) {
  return (
    <Field
      name="displayName"
      label="Display name"
      autoComplete="off"
      maxLength={80}
      required
      defaultValue={failed?.typed.displayName ?? displayName}
      error={failed?.fields.displayName?.[0]}
    />
  );
}

export function LogoutUrlField({ logoutUrl, failed }: Failed & { logoutUrl: string | null }) {
  return (
    <Field
      name="logoutUrl"
      label="Logout URL"
      hint="Optional. We post a logout token here when someone’s login at the app ends."
      autoComplete="off"
      spellCheck={false}
      defaultValue={failed?.typed.logoutUrl ?? logoutUrl ?? ""}
      error={failed?.fields.logoutUrl?.[0]}
    />
  );
}

export function ScopeBoxes({
  offered,
  scopes,
  failed,
}: Failed & {
  offered: readonly Pick<(typeof appScopes)[number], "field" | "scope" | "label">[];
  scopes: readonly string[];
}) {
  return (
    <fieldset className="space-y-2">
      <legend className="mb-1.5 font-medium">Scopes</legend>
      {offered.map(({ field, scope, label }) => (
        <CheckBox
          key={field}
          name={field}
          label={label}
          defaultChecked={failed ? field in failed.typed : scopes.includes(scope)}
        />
      ))}
    </fieldset>
  );
}

/** Several addresses, one per line. */
export function Lines({
  name,
  label,
  hint,
  lines,
  failed,
}: Failed & { name: string; label: string; hint: string; lines: readonly string[] }) {
  const fault = failed?.fields[name]?.[0];
  return (
    <div className="space-y-1.5">
      <label htmlFor={name} className="block font-medium">
        {label}
      </label>
      <p id={`${name}-hint`} className="text-muted text-small">
        {hint}
      </p>
      {fault ? (
        <p id={`${name}-error`} className="text-bad text-small">
          {fault}
        </p>
      ) : null}
      <textarea
        id={name}
        name={name}
        rows={3}
        spellCheck={false}
        autoCapitalize="none"
        defaultValue={failed?.typed[name] ?? lines.join("\n")}
        aria-invalid={fault ? true : undefined}
        aria-describedby={fault ? `${name}-hint ${name}-error` : `${name}-hint`}
        className={`block w-full rounded-card border bg-surface px-3 py-2 font-mono text-ink ${fault ? "border-bad" : "border-edge"}`}
      />
    </div>
  );
}

/** An app's new secret, on the one page that ever shows it. */
export function AppSecret({
  name,
  secret,
  page = `/admin/apps/${name}`,
}: {
  name: string;
  secret: string;
  page?: string;
}) {
  return (
    <Card
      title="The new secret"
      lead="Copy it to the app’s environment now. We only store its hash, so we can’t show it again."
    >
      <div data-shown-once className="space-y-4">
        <Copyable label={`Secret of ${name}`} text={secret} />
        <ButtonLink href={page} variant="primary">
          I’ve copied it
        </ButtonLink>
      </div>
    </Card>
  );
}
