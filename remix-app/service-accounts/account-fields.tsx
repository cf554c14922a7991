import { ChangeField, ChangeTick } from "../admin/change-fields.tsx";
import type { FailedChange } from "../admin/failed-change.ts";
import { scopeLabel } from "../machines/scopes.ts";
import { Select, TextArea } from "../ui/field.tsx";
import { scopeField } from "./scope-field.ts";
import type { ServiceAccount } from "./service-accounts.ts";

type Failed = { failed: FailedChange | undefined };

/** Renders the settings that the forms of a new and an existing service account share. */
export function SettingFields({
  account,
  offered,
  failed,
}: Failed & {
  account: Pick<ServiceAccount, "name" | "scopes" | "allowedAddresses" | "expiresAt"> | null;
  /** The scopes that the person may give. */
  offered: readonly string[];
}) {
  const scopesError = failed?.fields.scopes?.[0];
  return (
    <>
      <ChangeField
        name="name"
        label="Name"
        hint="What the program is, such as Nightly import."
        maxLength={100}
        required
        value={account?.name}
        failed={failed}
      />
      <fieldset id="scopes" className="space-y-2" aria-describedby={scopesError ? "scopes-error" : undefined}>
        <legend className="mb-1.5 font-medium">Scopes</legend>
        {scopesError ? (
          <p id="scopes-error" className="text-bad text-small">
            {scopesError}
          </p>
        ) : null}
        {offered.map((scope) => (
          <ChangeTick
            key={scope}
            name={scopeField(scope)}
            label={scopeLabel(scope)}
            hint={scope}
            value={account?.scopes.includes(scope) ?? false}
            failed={failed}
          />
        ))}
      </fieldset>
      <TextArea
        name="allowedAddresses"
        label="Allowed IP addresses"
        hint="Optional. Addresses or networks, such as 192.0.2.0/24, one per line. Empty allows every address."
        mono
        spellCheck={false}
        autoCapitalize="none"
        defaultValue={failed?.typed.allowedAddresses ?? account?.allowedAddresses.join("\n") ?? ""}
        error={failed?.fields.allowedAddresses?.[0]}
      />
      <ChangeField
        name="expiresOn"
        label="Expires after"
        hint="The last day, in UTC, at most a year from now. You can move it before it passes."
        type="date"
        required
        value={account?.expiresAt.slice(0, 10)}
        failed={failed}
      />
    </>
  );
}

/** Renders the choice of a new service account’s first credential. */
export function CredentialFields({ failed }: Failed) {
  return (
    <>
      <Select
        name="credential"
        label="Credential"
        hint="With a key, the program signs its requests for tokens, so no secret ever leaves it."
        defaultValue={failed?.typed.credential ?? "key"}
        error={failed?.fields.credential?.[0]}
      >
        <option value="key">Public key</option>
        <option value="secret">Secret, shown once</option>
      </Select>
      <PublicKeyField failed={failed} hint="Only for a public key." />
    </>
  );
}

/** Renders the field for a public key. */
export function PublicKeyField({ failed, hint = "" }: Failed & { hint?: string }) {
  const form = "A JWK as JSON: Ed25519, P-256, or RSA of 2,048 to 4,096 bits. Never the private key.";
  return (
    <TextArea
      name="publicKey"
      label="Public key"
      hint={`${hint} ${form}`.trim()}
      mono
      rows={6}
      spellCheck={false}
      autoCapitalize="none"
      autoComplete="off"
      defaultValue={failed?.typed.publicKey ?? ""}
      error={failed?.fields.publicKey?.[0]}
    />
  );
}
