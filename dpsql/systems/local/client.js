// People answer in their browser: what leaves it was drawn by a law (`dpsql help local`).

const GRID = 2 ** 32
const random = (n) => crypto.getRandomValues(new Uint8Array(n))
const gcd = (a, b) => (b ? gcd(b, a % b) : a)

/** A uniform integer below a bound. */
function below(bound, take) {
  const last = GRID - (GRID % bound)
  for (;;) {
    const word = take(4).reduce((sum, byte) => sum * 256 + byte, 0)
    if (word < last) return word % bound
  }
}

/** A law in whole numbers, and its ε in billionths. */
function lawOf({ mechanism, values, p, q }) {
  const bits = ['oue', 'unary'].includes(mechanism)
  const bound = (p[1] / gcd(p[1], q[1])) * q[1]
  const [own, other] = [p, q].map(([part, whole]) => part * (bound / whole))
  const all = bits ? own < bound : own + (values.length - 1) * other === bound
  if (!(all && 0 < other && other < own && bound <= GRID && !(own % 1) && !(other % 1)))
    throw new RangeError('no law')
  const odds = (own / other) * (bits ? (bound - other) / (bound - own) : 1)
  return { bits, bound, own, other, loss: Math.ceil(Math.log(odds) * 1e9) }
}

/** The report of the value at the place `truth`; `take(n)` gives n bytes. */
export function report(question, truth, take = random) {
  const { bits, bound, own, other } = lawOf(question), { values } = question
  if (bits) return values.map((_, n) => +(below(bound, take) < (n === truth ? own : other))).join('')
  const drawn = below(bound, take)
  if (drawn < own) return values[truth]
  const place = Math.floor((drawn - own) / other)
  return values[place + (place >= truth)]
}

/** The value for clicks or seconds: values are buckets, from the lowest. */
export const bucket = ({ values }, number, ends) => values[ends.filter((e) => number >= e).length]

/** The value for a place: cells of a grid, row by row from below. */
export function cell({ values }, x, y, [left, bottom, right, top], columns) {
  const step = (share, count) => Math.min(count - 1, Math.max(0, Math.floor(share * count)))
  const column = step((x - left) / (right - left), columns)
  return values[step((y - bottom) / (top - bottom), values.length / columns) * columns + column]
}

/** One person: each question is answered once, within a budget of ε for all. Reports are
 *  posted to `url`, a `batch` together. */
export class Respondent {
  constructor({ budget, url, table = url, batch = 10, store = localStorage, key = 'dpsql', ...more }) {
    const post = (...request) => fetch(...request), { locks } = globalThis.navigator ?? {}
    const given = { url, table, batch, store, key, locks, take: random, now: Date.now, post }
    Object.assign(this, given, more, { budget: Math.round(budget * 1e9) })
    this.load()
  }

  /** Another tab may have answered. What earlier versions kept is of the table that asks first. */
  load() {
    const { waiting = [], sending, ...memory } = JSON.parse(this.store.getItem(this.key) ?? '{}')
    this.memory = { spent: 0, answers: {}, reports: {}, queues: {}, ...memory }
    this.queue = this.memory.queues[this.table] ??= { waiting: [] }
    this.queue.waiting.unshift(...waiting)
    if (sending) this.queue.sending = sending
  }

  /** Reads and writes the memory while no other tab does; pages without locks (no https) fail. */
  async alone(step) {
    if (!this.locks) throw new Error('no locks')
    return this.locks.request(this.key, () => (this.load(), step()))
  }

  get left() {
    return this.budget - this.memory.spent
  }

  /** Promises the report: that of before, or one drawn, charged and queued now; or RangeError. */
  answer(question, value) {
    return this.alone(() => this.draw(question, value))
  }

  draw(question, value) {
    const { name, values, days } = question, truth = values.indexOf(String(value))
    if (truth < 0) throw new RangeError(`no value of ${name}`)
    const of = (q) => JSON.stringify([this.table, name, q.mechanism, q.values, q.p, q.q])
    const { answers, reports } = this.memory, id = of(question), old = answers[name]
    if (!reports[id] && old && of(JSON.parse(old.law)) === id) {
      reports[id] = { report: old.report, day: old.day }
      delete answers[name]
    }
    const last = reports[id], day = Math.floor(this.now() / 86_400_000)
    if (last && !(days && day - last.day >= days)) {
      this.save()
      return last.report
    }
    const { loss } = lawOf(question)
    if (!(loss <= this.left)) throw new RangeError(`no budget for ${name}`)
    const drawn = report(question, truth, this.take)
    this.memory.spent += loss
    reports[id] = { report: drawn, day }
    this.queue.waiting.push({ [name]: drawn })
    this.save() // before anybody sees it
    return drawn
  }

  save() {
    this.store.setItem(this.key, JSON.stringify(this.memory))
  }

  /** Posts what waits, if that is a batch or forced, without cookies or a referrer; again with the
   *  same key. What is no report any more (422) is dropped. */
  async send(force = false) {
    const begun = await this.alone(() => this.begin(force))
    if (!begun) return 0
    const { key, count, body } = begun
    const headers = { 'content-type': 'application/json', 'idempotency-key': key }
    const plain = { credentials: 'omit', referrerPolicy: 'no-referrer', keepalive: true }
    const { ok, status } = await this.post(this.url, { method: 'POST', headers, body, ...plain })
    return this.alone(() => {
      const mine = this.queue.sending?.[0] === key // else another tab was told
      if (!mine || !(ok || status === 422)) return 0
      this.queue.waiting.splice(0, count)
      delete this.queue.sending
      this.save()
      return ok ? count : 0
    })
  }

  /** The post that is on its way, or one that begins now: in every tab the same key. */
  begin(force) {
    const { waiting, sending } = this.queue
    if (!waiting.length || !(sending || force || waiting.length >= this.batch)) return
    const [key, count] = sending ?? [random(16).join('-'), Math.min(waiting.length, 100)]
    this.queue.sending = [key, count]
    this.save()
    return { key, count, body: JSON.stringify(waiting.slice(0, count)) }
  }
}
