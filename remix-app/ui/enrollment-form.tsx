import { AccountForm } from "./account-form.tsx";
import { Button } from "./button.tsx";
import { Copyable } from "./code-block.tsx";
import { CodeField, type FormField } from "./field.tsx";
import { QrCodeImage } from "./qr-code.tsx";

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

/** The second half of an enrollment: the secret for the app, as a picture and as text, and the code that proves it. */
export function EnrollmentForm({ formId, enrollment, code }: EnrollmentFormProps) {
  const { factorId, secret, name, uri, qrCode } = enrollment;
  return (
    <>
      <ol className="list-decimal space-y-1 pl-5">
        <li>Open your authenticator app and add an account.</li>
        <li>Scan the code, or type in the key.</li>
        <li>Enter the 6 digits that the app shows then.</li>
      </ol>
      <QrCodeImage {...qrCode} label="QR code for your authenticator app" />
      <Copyable label="Key" text={secret} shown={secret.match(/.{1,4}/g)?.join(" ") ?? secret} />
      <p>
        Is the app on this device?{" "}
        <a className="link" href={uri}>
          Open it
        </a>
      </p>
      <AccountForm id={formId} noValidate data-once className="space-y-5">
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
