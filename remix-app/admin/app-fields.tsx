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
  app: { displayName: string; origins: readonly string[]; scopes: readonly string[] };
  failed: FailedChange | undefined;
}) {
  const originsWrong = failed?.fields.origins?.[0];
  return (
    <>
      <Field
        name="displayName"
        label="Display name"
        autoComplete="off"
        maxLength={80}
        required
        defaultValue={failed?.typed.displayName ?? app.displayName}
        error={failed?.fields.displayName?.[0]}
      />
      <div className="space-y-1.5">
        <label htmlFor="origins" className="block font-medium">
          Origins
        </label>
        <p id="origins-hint" className="text-muted text-small">
          Where people sign in to the app: full origins, such as https://notes.example.com, one per line.
        </p>
        {originsWrong ? (
          <p id="origins-error" className="text-bad text-small">
            {originsWrong}
          </p>
        ) : null}
        <textarea
          id="origins"
          name="origins"
          rows={3}
          spellCheck={false}
          autoCapitalize="none"
          defaultValue={failed?.typed.origins ?? app.origins.join("\n")}
          aria-invalid={originsWrong ? true : undefined}
          aria-describedby={originsWrong ? "origins-hint origins-error" : "origins-hint"}
          className={`block w-full rounded-card border bg-surface px-3 py-2 font-mono text-ink ${originsWrong ? "border-bad" : "border-edge"}`}
        />
      </div>
      <fieldset className="space-y-2">
        <legend className="mb-1.5 font-medium">Scopes</legend>
        {appScopes.map(({ field, scope, label }) => (
          <CheckBox
            key={field}
            name={field}
            label={label}
            defaultChecked={failed ? field in failed.typed : app.scopes.includes(scope)}
          />
        ))}
      </fieldset>
    </>
  );
}

/** An app's new secret, on the one page that ever shows it. */
export function AppSecret({ name, secret }: { name: string; secret: string }) {
  return (
    <Card
      title="The new secret"
      lead="Copy it to the app’s environment now. We only store its hash, so we can’t show it again."
    >
      <div data-shown-once className="space-y-4">
        <Copyable label={`Secret of ${name}`} text={secret} />
        <ButtonLink href={`/admin/apps/${name}`} variant="primary">
          I’ve copied it
        </ButtonLink>
      </div>
    </Card>
  );
}
