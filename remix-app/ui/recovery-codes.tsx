import { useBrand } from "./brand.ts";
import { Button, ButtonLink } from "./button.tsx";
import { Notice } from "./notice.tsx";
import { ShownOnce } from "./shown-once.tsx";

/** Shows new recovery codes once, to download, print or write down. */
export function RecoveryCodes({ codes, email }: { codes: readonly string[]; email: string }) {
  const { name } = useBrand();
  const fileName = `${name.toLowerCase().replaceAll(/[^\p{L}\p{N}]+/gu, "-")}-recovery-codes.txt`;
  const text = [
    `${name} recovery codes for ${email}`,
    "Each code works once. Use one to sign in once, or to remove the account’s authenticator apps and add a new one.",
    "",
    ...codes,
    "",
  ].join("\n");
  return (
    <ShownOnce label="Your new recovery codes">
      <Notice tone="warn">Keep these codes somewhere you can reach without your phone.</Notice>
      <ul
        aria-label="Recovery codes"
        className="grid grid-cols-1 gap-x-6 gap-y-1 rounded-card border border-line bg-surface px-4 py-3 font-mono sm:grid-cols-2"
      >
        {codes.map((code) => (
          <li key={code} className="whitespace-nowrap text-center">
            {code}
          </li>
        ))}
      </ul>
      <div className="flex flex-wrap gap-3 print:hidden">
        <ButtonLink download={fileName} href={`data:text/plain;charset=utf-8,${encodeURIComponent(text)}`}>
          Download
        </ButtonLink>
        <Button type="button" data-prints="" variant="secondary">
          Print
        </Button>
        <Button type="button" data-copies={codes.join("\n")} variant="secondary">
          <span aria-live="polite">Copy</span>
        </Button>
      </div>
    </ShownOnce>
  );
}
