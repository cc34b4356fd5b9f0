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
  constructor({ budget, batch = 10, store = localStorage, key = 'dpsql', ...more }) {
    const post = (...request) => fetch(...request)
    const given = { batch, store, key, take: random, now: Date.now, post, ...more }
    Object.assign(this, given, { budget: Math.round(budget * 1e9) })
    this.load()
  }

  /** Another tab may have answered. */
  load() {
    const known = this.store.getItem(this.key)
    this.memory = known ? JSON.parse(known) : { spent: 0, answers: {}, waiting: [] }
  }

  get left() {
    return this.budget - this.memory.spent
  }

  /** The report: that of before, or one drawn, charged and queued now; or RangeError. */
  answer(question, value) {
    const truth = question.values.indexOf(String(value))
    if (truth < 0) throw new RangeError(`no value of ${question.name}`)
    this.load()
    const { answers, waiting } = this.memory
    const last = answers[question.name]
    const day = Math.floor(this.now() / 86_400_000)
    const law = JSON.stringify(question)
    const over = last && question.days && day - last.day >= question.days
    if (last && last.law === law && !over) return last.report
    const { loss } = lawOf(question)
    if (!(loss <= this.left)) throw new RangeError(`no budget for ${question.name}`)
    const drawn = report(question, truth, this.take)
    this.memory.spent += loss
    answers[question.name] = { report: drawn, law, day }
    waiting.push({ [question.name]: drawn })
    this.save() // before anybody sees it
    return drawn
  }

  save() {
    this.store.setItem(this.key, JSON.stringify(this.memory))
  }

  /** Posts what waits, if that is a batch or forced, without cookies or a referrer; again with the
   *  same key. What is no report any more (422) is dropped. */
  async send(force = false) {
    this.load()
    const { waiting, sending } = this.memory
    if (!waiting.length || !(sending || force || waiting.length >= this.batch)) return 0
    const [key, count] = sending ?? [random(16).join('-'), Math.min(waiting.length, 100)]
    this.memory.sending = [key, count]
    this.save()
    const headers = { 'content-type': 'application/json', 'idempotency-key': key }
    const plain = { credentials: 'omit', referrerPolicy: 'no-referrer', keepalive: true }
    const body = JSON.stringify(waiting.slice(0, count))
    const { ok, status } = await this.post(this.url, { method: 'POST', headers, body, ...plain })
    this.load()
    const mine = this.memory.sending?.[0] === key // else another tab was told
    if (!mine || !(ok || status === 422)) return 0
    this.memory.waiting.splice(0, count)
    delete this.memory.sending
    this.save()
    return ok ? count : 0
  }
}
