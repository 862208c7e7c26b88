// Says what the binding of Rust gives: as tests/e2e/test_apps.py asks of every language.
use small_bert::{Bundle, Error, Options};

fn bits(rows: &[Vec<f32>]) -> String {
    rows.iter().flatten().flat_map(|number| number.to_le_bytes()).map(|byte| format!("{byte:02x}")).collect()
}

fn main() -> Result<(), Error> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let (folder, texts) = (&words[0], &words[1..]);
    let bundle = Bundle::open(folder)?;
    let vectors = bits(&bundle.embed(texts)?);
    println!("{}", bundle.dimension());
    println!("{vectors}");
    println!("{}", bundle.tokens(&texts[0])?.iter().map(u32::to_string).collect::<Vec<_>>().join(","));
    println!("{:.6}", bundle.similarity(&texts[0], &texts[1])?);
    let same = std::thread::scope(|scope| {
        let threads: Vec<_> =
            (0..50).map(|_| scope.spawn(|| bundle.embed(texts).map_or(false, |rows| bits(&rows) == vectors))).collect();
        threads.into_iter().all(|thread| thread.join().unwrap())
    });
    println!("{same}");
    let refused = Bundle::open_with(folder, &Options { prefix: Some("answer".into()), ..Options::default() }).unwrap_err();
    println!("true {} {refused}", refused.code);
    let library = Some(format!("{folder}/lib/libembed.so").into());
    let refused = Bundle::open_with(format!("{folder}/model"), &Options { library, ..Options::default() }).unwrap_err();
    println!("true {}", refused.code);
    let refused = Bundle::open_with(folder, &Options { public_key: Some(String::new()), ..Options::default() }).unwrap_err();
    println!("true {}", refused.code);
    let library = Some(format!("{folder}/lib/libembed.so").into());
    let refused = Bundle::open_with("", &Options { library, ..Options::default() }).unwrap_err();
    println!("true {}", refused.code);
    println!("{}", bundle.embed::<&str>(&[])?.len());
    bundle.close();
    println!("true\ntrue");
    Ok(())
}
