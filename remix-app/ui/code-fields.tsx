import { AccountForm } from "./account-form.tsx";
import { Button } from "./button.tsx";
import { CopyableText } from "./code-block.tsx";
import { CodeField, type FormField } from "./field.tsx";

export interface CodeFieldsProps {
  /** The authenticators to choose from. A single authenticator needs no choice. */
  authenticators: readonly { id: string; name: string }[];
  /** The initially selected authenticator. */
  chosen: string | undefined;
  code: FormField;
  factorName: string;
  /** Whether the field is the page's first input. */
  autoFocus: boolean;
}

/** Renders the choice of an authenticator, if there are several, and the field for its code. */
export function CodeFields({ authenticators, chosen, code, factorName, autoFocus }: CodeFieldsProps) {
  const [only, ...others] = authenticators;
  return (
    <>
      {others.length === 0 ? (
        <input type="hidden" name={factorName} value={only?.id ?? ""} />
      ) : (
        <fieldset className="space-y-1.5">
          <legend className="font-medium">Which app shows the code?</legend>
          {authenticators.map(({ id, name }) => (
            <label
              key={id}
              className="flex min-h-10 cursor-pointer items-center gap-3 rounded-card border border-line bg-surface px-3 py-2 has-checked:border-accent has-checked:bg-accent-soft"
            >
              <input
                type="radio"
                name={factorName}
                value={id}
                defaultChecked={id === (chosen ?? only?.id)}
                className="size-4 shrink-0 accent-accent"
              />
              <span className="min-w-0">{name}</span>
            </label>
          ))}
        </fieldset>
      )}
      <CodeField field={code} autoFocus={autoFocus} />
    </>
  );
}

export interface EnrollmentFormProps {
  formId: string;
  enrollment: {
    factorId: string;
    secret: string;
    name: string;
    uri: string;
    qrCode: { size: number; path: string };
  };
  code: FormField;
}

/**
 * Renders the second step of an authenticator's enrollment. Shows the secret as a QR code and as text, and the field
 * for the code.
 */
export function EnrollmentForm({ formId, enrollment, code }: EnrollmentFormProps) {
  const { factorId, secret, name, uri, qrCode } = enrollment;
  return (
    <>
      <ol className="list-decimal space-y-1 pl-5">
        <li>Open your authenticator app and add an account.</li>
        <li>Scan the QR code, or enter the key.</li>
        <li>Enter the 6-digit code the app shows.</li>
      </ol>
      <QrCodeImage {...qrCode} label="QR code for your authenticator app" />
      <CopyableText label="Key" text={secret} shown={secret.match(/.{1,4}/g)?.join(" ") ?? secret} />
      <p>
        Is your authenticator app on this device?{" "}
        <a className="link" href={uri}>
          Open it
        </a>
      </p>
      <AccountForm id={formId} noValidate className="space-y-5">
        <input type="hidden" name="step" value="verify" />
        <input type="hidden" name="factorId" value={factorId} />
        <input type="hidden" name="secret" value={secret} />
        <input type="hidden" name="name" value={name} />
        <CodeField field={code} />
        <Button className="w-full">Verify and add</Button>
      </AccountForm>
    </>
  );
}

/** Shows a QR code, dark on white in both themes because scanners expect that. */
export function QrCodeImage({ size, path, label }: { size: number; path: string; label: string }) {
  return (
    <svg
      role="img"
      aria-label={label}
      viewBox={`0 0 ${size} ${size}`}
      shapeRendering="crispEdges"
      className="mx-auto block w-full max-w-60 rounded-card border border-line"
    >
      <rect width={size} height={size} fill="#fff" />
      <path d={path} fill="#000" />
    </svg>
  );
}
