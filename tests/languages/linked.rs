// Has a bundle inside: writes the vectors of texts.
use std::ffi::{CStr, CString};
use std::io::Write;
use std::os::raw::{c_char, c_int, c_void};
use std::ptr::{null, null_mut};

#[link(name = "embed", kind = "static")]
extern "C" {
    fn embed_open(folder: *const c_char, options: *const c_void, bundle: *mut *mut c_void, error: *mut c_char, size: usize) -> c_int;
    fn embed_dimension(bundle: *const c_void) -> usize;
    fn embed_texts(
        bundle: *const c_void,
        texts: *const *const c_char,
        lengths: *const usize,
        count: usize,
        vectors: *mut f32,
        error: *mut c_char,
        size: usize,
    ) -> c_int;
    fn embed_close(bundle: *mut c_void);
}

struct Bundle(*mut c_void);

// As embed.h says of a bundle.
unsafe impl Send for Bundle {}
unsafe impl Sync for Bundle {}

impl Bundle {
    fn open() -> Result<Bundle, String> {
        let (mut bundle, mut error) = (null_mut(), [0 as c_char; 256]);
        match unsafe { embed_open(null(), null(), &mut bundle, error.as_mut_ptr(), error.len()) } {
            0 => Ok(Bundle(bundle)),
            _ => Err(unsafe { CStr::from_ptr(error.as_ptr()) }.to_string_lossy().into_owned()),
        }
    }

    fn embed(&self, texts: &[CString]) -> Vec<f32> {
        let starts: Vec<_> = texts.iter().map(|text| text.as_ptr()).collect();
        let mut vectors = vec![0f32; texts.len() * unsafe { embed_dimension(self.0) }];
        let code = unsafe {
            embed_texts(self.0, starts.as_ptr(), null(), starts.len(), vectors.as_mut_ptr(), null_mut(), 0)
        };
        assert_eq!(code, 0);
        vectors
    }
}

impl Drop for Bundle {
    fn drop(&mut self) {
        unsafe { embed_close(self.0) }
    }
}

fn main() -> Result<(), String> {
    let texts: Vec<_> = std::env::args().skip(1).map(|word| CString::new(word).unwrap()).collect();
    let bundle = Bundle::open()?;
    let vectors = bundle.embed(&texts);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| assert_eq!(bundle.embed(&texts), vectors));
        }
    });
    let bytes: Vec<u8> = vectors.iter().flat_map(|number| number.to_le_bytes()).collect();
    std::io::stdout().write_all(&bytes).map_err(|error| error.to_string())
}
