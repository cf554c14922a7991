/** What is in a bag, at its place there. */
export type InBag<Item> = { readonly item: Item; place: number };

/** Items in no order, put in and taken out at the same price however many there are. */
export type Bag<Item> = {
  readonly size: number;
  add: (item: Item) => InBag<Item>;
  /** Takes it out, unless it is out already. */
  remove: (entry: InBag<Item>) => void;
  /** What is in it now. */
  items: () => Item[];
};

/**
 * For what comes and goes with every call, in place of a `Set` or a `Map`. V8 gives those a new table each few changes,
 * and the old one points to it: once one of them has grown old, each that follows is kept with all that was in it, call
 * after call, until a full collection finds that nobody needs them.
 */
export function createBag<Item>(): Bag<Item> {
  const entries: InBag<Item>[] = [];
  return {
    get size() {
      return entries.length;
    },
    add(item) {
      const entry = { item, place: entries.length };
      entries.push(entry);
      return entry;
    },
    remove(entry) {
      if (entries[entry.place] !== entry) return;
      const last = entries.pop();
      if (!last || last === entry) return;
      last.place = entry.place;
      entries[entry.place] = last;
    },
    items: () => entries.map(({ item }) => item),
  };
}
