import { Notice } from "./notice.tsx";

/** What a card says of a success that happened in it; nothing where there was none. */
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
