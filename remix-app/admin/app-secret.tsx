import { buttonClass } from "../ui/button.tsx";
import { Card } from "../ui/card.tsx";
import { Copyable } from "../ui/copyable.tsx";

/** An app's new secret, on the one page that ever shows it. */
export function AppSecret({ name, secret }: { name: string; secret: string }) {
  return (
    <Card
      title="The new secret"
      lead="Copy it now into the app's environment: we keep only its fingerprint, and cannot show it again."
    >
      <div data-shown-once className="space-y-4">
        <Copyable label={`Secret of ${name}`} text={secret} />
        <a href={`/admin/apps/${name}`} className={buttonClass("primary")}>
          I have copied it
        </a>
      </div>
    </Card>
  );
}
