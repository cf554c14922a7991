/** An item in a bag, and its position there. */
export type BagEntry<Item> = { readonly item: Item; place: number };

/** An unordered collection whose items are added and removed in constant time. */
export type Bag<Item> = {
  readonly size: number;
  add: (item: Item) => BagEntry<Item>;
  /** Removes an entry, unless it has been removed already. */
  remove: (entry: BagEntry<Item>) => void;
  /** Returns the bag's current items. */
  items: () => Item[];
};

/**
 * Creates a bag for items that are added and removed with every call. A `Set` or a `Map` would keep memory: V8 replaces
 * its table every few changes, and each old table points to the new one. As soon as one table is in the old generation,
 * every later table and its items stay in memory until a full garbage collection.
 */
export function createBag<Item>(): Bag<Item> {
  const entries: BagEntry<Item>[] = [];
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
