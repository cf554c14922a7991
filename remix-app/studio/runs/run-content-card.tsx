import { AccountForm } from "../../ui/account-form.tsx";
import { Button } from "../../ui/button.tsx";
import { Card } from "../../ui/card.tsx";
import { RelativeTime, UtcDay } from "../../ui/moment.tsx";
import { Notice } from "../../ui/notice.tsx";
import type { ContentText } from "./content-texts.ts";
import type { OpenContent, StoredContentFacts } from "./runs.ts";

/** Longer texts are collapsed. */
const foldedFromCharacters = 1_200;
const foldedFromLines = 16;
const previewCharacters = 400;

const parts = [
  { part: "prompt", title: "Prompt", missing: "The prompt isn’t kept: it was too large." },
  { part: "tools", title: "Tools of the gateway", missing: null },
  {
    part: "answer",
    title: "Answer",
    missing: "The answer wasn’t kept: it was incomplete, not text, or too large.",
  },
] as const;

/** Shows a run's prompts and answers on request. Each view is recorded. */
export function RunContentCard({
  stored,
  opened,
}: {
  stored: StoredContentFacts;
  /** Null if the content was requested but has been deleted. */
  opened: OpenContent | null | undefined;
}) {
  return (
    <Card
      id="said"
      title="Prompts and answers"
      lead={
        <>
          This workspace keeps prompts and answers. These are deleted <RelativeTime at={stored.deletedFrom} />, on{" "}
          <UtcDay at={stored.deletedFrom} />.
        </>
      }
    >
      {opened ? (
        <div className="space-y-6">
          {parts.map(({ part, title, missing }) =>
            opened[part].length > 0 ? (
              <section key={part} className="space-y-3">
                <h3 className="font-medium">{title}</h3>
                {opened[part].map((entry, index) => (
                  // biome-ignore lint/suspicious/noArrayIndexKey: they never change, and have nothing else of their own
                  <ContentTextItem key={index} entry={entry} />
                ))}
              </section>
            ) : missing ? (
              <p key={part} className="text-muted">
                {missing}
              </p>
            ) : null,
          )}
        </div>
      ) : (
        <AccountForm action="#said" className="space-y-4">
          {opened === null ? <Notice tone="warn">It has been deleted.</Notice> : null}
          <p className="text-muted">
            Members who manage the AI policy can read them. Each view is recorded in the workspace’s activity.
          </p>
          <Button name="step" value="open" variant="secondary">
            Show prompts and answers
          </Button>
        </AccountForm>
      )}
    </Card>
  );
}

function ContentTextItem({ entry: { who, text, code, leftOut } }: { entry: ContentText }) {
  const folded = text.length > foldedFromCharacters || text.split("\n", foldedFromLines + 1).length > foldedFromLines;
  const look = `whitespace-pre-wrap break-words ${code ? "font-mono text-small" : ""}`;
  return (
    <div className="space-y-1 border-line border-l-2 pl-3">
      <p className="break-all text-muted text-small">{who}</p>
      {folded ? (
        <details className="group">
          <summary className="min-h-6 cursor-pointer rounded-button">
            <span className="font-medium text-small">
              <span className="group-open:hidden">Show all {text.length.toLocaleString("en")} characters</span>
              <span className="not-group-open:hidden">Show less</span>
            </span>
            <bdi className={`mt-1 block text-muted group-open:hidden ${look}`}>{previewOf(text)}…</bdi>
          </summary>
          <bdi className={`mt-1 block ${look}`}>{text}</bdi>
        </details>
      ) : (
        <bdi className={`block ${look}`}>{text}</bdi>
      )}
      {leftOut > 0 ? (
        <p className="text-muted text-small">{leftOut.toLocaleString("en")} more characters aren’t shown.</p>
      ) : null}
    </div>
  );
}

function previewOf(text: string): string {
  return text.split("\n", 6).join("\n").slice(0, previewCharacters);
}
