import { CircleCheck, Info, TriangleAlert } from "lucide-react";
import type { ReactNode } from "react";

const tones = {
  info: { look: "bg-accent-soft", icon: "text-accent", Icon: Info },
  good: { look: "bg-good-soft", icon: "text-good", Icon: CircleCheck },
  warn: { look: "bg-warn-soft", icon: "text-warn", Icon: TriangleAlert },
} as const;

/** Shows a status message where something happened. It is announced to screen readers and does not disappear. */
export function Notice({ tone = "info", children }: { tone?: keyof typeof tones; children: ReactNode }) {
  const { look, icon, Icon } = tones[tone];
  return (
    <div role="status" className={`flex gap-2.5 rounded-card p-3 ${look}`}>
      <Icon aria-hidden="true" className={`mt-0.5 size-4 shrink-0 ${icon}`} />
      <div className="min-w-0">{children}</div>
    </div>
  );
}

/** Shows the card's success notice, if there is one. */
export function CardNotice({
  notice,
  card,
  words,
}: {
  notice: { card: string; done: string } | null;
  card: string;
  words: Record<string, string>;
}) {
  const text = notice?.card === card && Object.hasOwn(words, notice.done) ? words[notice.done] : undefined;
  return text ? (
    <div className="mb-4">
      <Notice tone="good">{text}</Notice>
    </div>
  ) : null;
}
